"""What a suite reports."""

from typing import NamedTuple


class Row(NamedTuple):
    """The cases of one kind: how many were tried, what fell short and why, and the seconds of the slowest."""

    kind: str
    tried: int
    failures: list[str]
    slowest: float
