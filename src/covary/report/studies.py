"""What a study was to show, and whether it did."""

from rich.table import Table
from rich.text import Text

from ..records import Study

__all__ = ["study_table"]


def study_table(study: Study) -> Table:
    """The claims of a study: the bar, what was found, and whether it was reached."""
    table = Table(title=Text(study.title))
    for column in ("claim", "expected", "found", "holds"):
        table.add_column(column, overflow="fold")
    for claim in study.claims:
        cells = (claim.sentence, claim.expected, claim.found, "yes" if claim.holds else "NO")
        table.add_row(*(Text(cell) for cell in cells))
    return table
