"""The record of a study: one question, its numbers, and what they say about the claims it was made for."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Claim:
    """One thing that a study should show.

    Arguments:
        sentence: The claim in plain words.
        expected: The bar, such as "within 15 % of 1.571".
        found: What was measured.
        holds: Whether the bar was reached.

    Example:
        >>> from covary.records import Claim
        >>> Claim("rotation found", "within 15 % of 1.571", "1.569", True).holds
        True
    """

    sentence: str
    expected: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Study:
    """What `covary reproduce NAME` leaves in `study.json`; its figure and table are drawn from it alone.

    Arguments:
        name: The study, such as "toy".
        scale: "smoke", "cpu" or "paper".
        title: One line that says what was asked.
        config: Every setting, by name.
        versions: Versions of covary, torch and Python, and the number of threads.
        rows: The table, a mapping from column to value for each line.
        series: What the figure needs besides, by name.
        claims: What the study was made to show.
        seconds: How long it took.
        files: The SHA-256 of each figure, by file name.

    Example:
        >>> from covary.records import Study
        >>> Study("toy", "smoke", "five models", {}, {}, [], {}, [], 1.0).scale
        'smoke'
    """

    name: str
    scale: str
    title: str
    config: dict[str, Any]
    versions: dict[str, str]
    rows: list[dict[str, Any]]
    series: dict[str, Any]
    claims: list[Claim]
    seconds: float
    files: dict[str, str] = field(default_factory=dict)
