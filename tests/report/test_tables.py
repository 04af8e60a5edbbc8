"""Tables for the terminal: every number, and text never read as markup."""

import dataclasses
import io

import pytest
from rich.console import Console

from covary.report import comparison_table, evidence_table, metrics_table, symmetries_table, symmetries_text
from report.runs import SPARSE, evidence, full_run


def printed(renderable) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def test_symmetries():
    line = next(line for line in printed(symmetries_table(full_run())).splitlines() if "rotation" in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "rotation",
        "1.52",
        "radians",
        "±87°",
        "clear",
        "1.57",
    ]
    assert symmetries_text(full_run()).count("negligible") == 4


def test_evidence_is_per_datum_and_in_total():
    text = printed(evidence_table(full_run()))
    assert "-0.3100" in text
    assert "-1550.0" in text
    assert f"{full_run().evidence.log_evidence:.1f}" in text


def test_metrics_have_a_row_per_network():
    text = printed(metrics_table(full_run()))
    assert all(f"{name} " in text for name in ("learned", "plain", "fixed", "augerino"))
    assert "90.96" in text


def test_comparison_warns_before_it_ranks():
    runs = [full_run(), dataclasses.replace(full_run(), title="few", evidence=evidence(-0.3, 10))]
    text = printed(comparison_table(runs))
    assert text.startswith("The runs are of different numbers of data (10, 5000): their evidences cannot be compared.")
    assert "cannot be compared" not in printed(comparison_table([full_run(), full_run()]))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("draw", [symmetries_table, evidence_table, metrics_table])
def test_sparse_records_have_tables(name, draw):
    assert printed(draw(SPARSE[name]()))


def test_text_is_no_markup():
    symmetry = dataclasses.replace(full_run().symmetries[0], name="[red]x[/red]", meaning="[/]")
    run = dataclasses.replace(full_run(), title="[bold]t", symmetries=[symmetry])
    assert "[red]x[/red]" in printed(symmetries_table(run))
    assert "[/]" in printed(symmetries_table(run))
    assert "[bold]t" in printed(comparison_table([run]))
