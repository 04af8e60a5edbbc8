"""Figures, tables and HTML pages of saved runs.

A figure is a function from a record's plain numbers to a matplotlib figure; it reads no network and imports no torch,
so it can be drawn again at any time. A page is one HTML file that contains its figures as SVG and fetches nothing.
"""

from ..records.summary import summary
from .curves import evidence_figure, precisions_figure, trajectories_figure
from .figures import (
    architecture_figure,
    comparison_figure,
    correlation_figure,
    flow_figure,
    pictures_figure,
    widths_figure,
)
from .page import page, write_page
from .svg import svg
from .tables import comparability, comparison

__all__ = [
    "architecture_figure",
    "comparability",
    "comparison",
    "comparison_figure",
    "correlation_figure",
    "evidence_figure",
    "flow_figure",
    "page",
    "pictures_figure",
    "precisions_figure",
    "summary",
    "svg",
    "trajectories_figure",
    "widths_figure",
    "write_page",
]
