"""The table of a study's claims."""

from covary.records import Claim, Study
from covary.reproduce.figures import study_table


def test_a_table_has_a_line_per_claim():
    claims = [Claim("near", "< 1 km", "2 km", False), Claim("far", "> 1 km", "2 km", True)]
    table = study_table(Study("moon", "smoke", "The moon", {}, {}, [], {}, claims, 1.0))
    assert [cell.plain for cell in table.columns[0].cells] == ["near", "far"]
    assert [cell.plain for cell in table.columns[3].cells] == ["NO", "yes"]
