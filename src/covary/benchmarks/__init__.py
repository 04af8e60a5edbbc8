"""Time and memory of covary, as `covary bench` measures them.

One benchmark per file, each a function of the number of repeats that returns rows. Ratios are taken between passes that
alternate in one process; memory is measured for each pass in a process of its own.
"""

from collections.abc import Callable
from typing import Any

from .._types import Progress
from .coverage import measure_coverage
from .curvature import measure_curvature
from .evidence import measure_evidence
from .fit import measure_fit
from .layers import measure_layers
from .peers import measure_peers
from .scaling import measure_scaling
from .verdicts import measure_verdicts

__all__ = ["WORKLOADS"]

WORKLOADS: dict[str, Callable[[int, Progress], list[dict[str, Any]]]] = {
    "curvature": measure_curvature,
    "evidence": measure_evidence,
    "fit": measure_fit,
    "layers": measure_layers,
    "scaling": measure_scaling,
    "peers": measure_peers,
    "coverage": measure_coverage,
    "verdicts": measure_verdicts,
}
