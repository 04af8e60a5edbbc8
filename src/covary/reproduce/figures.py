"""The table of a study's claims, and the figure of each study."""

from collections.abc import Callable

from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from ..records import Study
from .paper1.figures import recover_figure, sampling_figure, table_figure, toy_figure
from .paper2.figures import cifar_layers_figure, groups_figure, quadrant_figure, separable_figure
from .paper3.figures import reparametrization_figure

STUDY_FIGURES: dict[str, Callable[[Study], Figure]] = {
    "toy": toy_figure,
    "recover": recover_figure,
    "mnist-mlp": table_figure,
    "sampling": sampling_figure,
    "quadrant": quadrant_figure,
    "cifar-layers": cifar_layers_figure,
    "groups": groups_figure,
    "separable": separable_figure,
    "reparametrization": reparametrization_figure,
}


def study_table(study: Study) -> Table:
    """The claims of a study: what was expected, what was found, and whether the claim holds."""
    table = Table(title=Text(study.title))
    for column in ("claim", "expected", "found", "holds"):
        table.add_column(column, overflow="fold")
    for claim in study.claims:
        cells = (claim.sentence, claim.expected, claim.found, "yes" if claim.holds else "NO")
        table.add_row(*(Text(cell) for cell in cells))
    return table
