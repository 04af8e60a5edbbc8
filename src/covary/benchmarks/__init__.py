"""How long does it take, and how much memory?

One workload per file, each a function of the number of repeats that returns rows: what `covary bench` runs. Ratios are
taken between passes that alternate in one process; memory is measured for each pass in a process of its own.
"""

from collections.abc import Callable
from typing import Any

from .curvature import curvature
from .evidence import evidence
from .peers import peers
from .scaling import scaling

__all__ = ["WORKLOADS"]

WORKLOADS: dict[str, Callable[[int, Callable[[str], None]], list[dict[str, Any]]]] = {
    "curvature": curvature,
    "evidence": evidence,
    "scaling": scaling,
    "peers": peers,
}
