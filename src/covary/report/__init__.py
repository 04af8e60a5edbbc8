"""What do the records show?

A figure is a function from plain numbers to a matplotlib figure; it reads no network and imports no torch, so that it
can be drawn again at any time. A page is one HTML file that holds its figures as SVG and fetches nothing.
"""

from ..records.words import summary
from .architecture import architecture_figure
from .comparison import comparability, comparison
from .curves import evidence_figure, precisions_figure, trajectories_figure
from .figures import comparison_figure, correlation_figure, flow_figure, pictures_figure, widths_figure
from .page import page, write_page
from .progress import FitProgress
from .svg import svg
from .tables import (
    comparison_table,
    evidence_table,
    layers_table,
    metrics_table,
    pruning_table,
    run_text,
    symmetries_table,
)

__all__ = [
    "FitProgress",
    "architecture_figure",
    "comparability",
    "comparison",
    "comparison_figure",
    "comparison_table",
    "correlation_figure",
    "evidence_figure",
    "evidence_table",
    "flow_figure",
    "layers_table",
    "metrics_table",
    "page",
    "pictures_figure",
    "precisions_figure",
    "pruning_table",
    "run_text",
    "summary",
    "svg",
    "symmetries_table",
    "trajectories_figure",
    "widths_figure",
    "write_page",
]
