"""The table of a study's claims, and the figures of each study."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from ..records import Study
from ..report.tables import table
from .paper1.figures import invariances_figure, recover_figure, sampling_figure, sizes_figure, table_figure, toy_figure
from .paper2.figures import cifar_layers_figure, groups_figure, quadrant_figure, separable_figure
from .paper3.figures import reparametrization_figure, sharpness_figure

Draw = Callable[[Study], Figure]

# Study -> name of the file, without its ending -> figure; "figure" is the first of each.
STUDY_FIGURES: dict[str, Mapping[str, Draw]] = {
    "toy": {"figure": toy_figure},
    "recover": {"figure": recover_figure},
    "table1": {"figure": table_figure, "invariances": invariances_figure},
    "table2": {"figure": table_figure, "invariances": invariances_figure},
    "figure5": {"figure": sizes_figure},
    "correlated": {"figure": table_figure, "invariances": invariances_figure},
    "sampling": {"figure": sampling_figure},
    "quadrant": {"figure": quadrant_figure},
    "cifar-layers": {"figure": cifar_layers_figure},
    "groups": {"figure": groups_figure},
    "separable": {"figure": separable_figure},
    "reparametrization": {"figure": reparametrization_figure},
    "sharpness": {"figure": sharpness_figure},
}


def study_table(study: Study) -> Table:
    """The claims of a study: what was expected, what was found, and whether the claim holds."""
    rows = [[claim.sentence, claim.expected, claim.found, "yes" if claim.holds else "NO"] for claim in study.claims]
    made = table(("claim", "expected", "found", "holds"), rows)
    made.title = Text(study.title)
    return made
