"""What a study was to show, and whether it did: a table of its claims, and its figure."""

from collections.abc import Callable

from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from ..records import Study
from .paper1.recover_figure import recover_figure
from .paper1.sampling_figure import sampling_figure
from .paper1.table1_figure import table_figure
from .paper1.toy_figure import toy_figure
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
    """The claims of a study: the bar, what was found, and whether it was reached."""
    table = Table(title=Text(study.title))
    for column in ("claim", "expected", "found", "holds"):
        table.add_column(column, overflow="fold")
    for claim in study.claims:
        cells = (claim.sentence, claim.expected, claim.found, "yes" if claim.holds else "NO")
        table.add_row(*(Text(cell) for cell in cells))
    return table
