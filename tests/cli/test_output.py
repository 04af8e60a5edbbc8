"""What commands print while they work."""

import io

from rich.console import Console

from covary.cli import output
from covary.report import FitProgress
from covary.report import progress as report_progress


def test_the_bar_of_a_fit_stands_below_that_of_its_study(monkeypatch):
    """On two consoles each bar would wipe out the line of the other."""
    console = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    monkeypatch.setattr(output, "CONSOLE", console)
    monkeypatch.setattr(report_progress, "CONSOLE", console)
    with output.progress("study") as report:
        report("translated", 0.25)
        with FitProgress(60, "learn") as fit:
            fit.advance(10.4)
            fit.progress.refresh()
    drawn = [lines for lines in console.file.getvalue().split("\x1b[1A") if "epoch 11" in lines]
    assert drawn
    assert all(
        lines.index("translated") < lines.index("\n", lines.index("translated")) < lines.index("epoch 11")
        for lines in drawn
    )
