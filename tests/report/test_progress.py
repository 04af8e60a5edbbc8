"""The progress bar: news on a terminal, silence elsewhere."""

import io

from rich.console import Console

from covary.report import FitProgress
from report.runs import full_run


def shown(terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=160, color_system=None)
    with FitProgress(60, "[rotated] digits", console) as progress:
        progress.advance(10.4)
        progress.progress.refresh()
        progress.show(full_run().history[29])
        progress.progress.refresh()
    return console.file.getvalue()


def test_a_terminal_sees_epoch_evidence_and_the_two_largest_widths():
    text = shown(terminal=True)
    assert "[rotated] digits" in text
    assert "epoch 11 of 60" in text
    assert "epoch 30 of 60" in text
    epoch = full_run().history[29]
    assert f"log evidence {epoch.judged.log_evidence / 5000:.3f}" in text
    assert f"rotation {epoch.widths['rotation']:.2f}  horizontal scale {epoch.widths['scale_x']:.2f}" in text
    assert "shear" not in text


def test_no_terminal_sees_nothing():
    assert shown(terminal=False) == ""


def test_the_fit_stands_in_before_the_first_evidence():
    console = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    with FitProgress(60, "digits", console) as progress:
        progress.show(full_run().history[0])
        progress.progress.refresh()
    assert "log-likelihood -0.300" in console.file.getvalue()


def test_the_last_epoch_is_not_exceeded():
    console = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    with FitProgress(2, "digits", console) as progress:
        progress.advance(2.0)
        progress.progress.refresh()
    assert "epoch 2 of 2" in console.file.getvalue()
    assert "epoch 3" not in console.file.getvalue()
