"""The progress of a fit: a bar on a terminal, lines elsewhere."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from covary.cli.progress import ProgressBar, progress_of
from covary.config import FitConfig
from covary.records import Epoch
from report.runs import full_run


def shown(*epochs: Epoch, steps: tuple[float, ...] = (), num_epochs: int = 60, width: int = 160) -> str:
    """What a terminal shows."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    bar = ProgressBar("[rotated] digits", console)
    bar.on_fit_start(FitConfig(epochs=num_epochs))
    for call, values in ((bar.on_step, steps), (bar.on_epoch, epochs), (bar.on_phase, ("evaluating", "testing"))):
        for value in values:
            call(value)
            bar.live.refresh()
    bar.on_fit_end()
    return console.file.getvalue()


def test_a_terminal_sees_phase_epoch_evidence_and_the_two_largest_widths():
    epoch = full_run().history[29]
    text = shown(epoch, steps=(10.4,))
    assert "[rotated] digits: training [" in text
    assert "[rotated] digits: evaluating [" in text
    assert "[rotated] digits: testing [" in text
    assert "epoch 11 of 60" in text
    assert "epoch 30 of 60" in text
    assert f"log evidence {epoch.evaluated.log_evidence / 5000:.3f}" in text
    assert f"rotation {epoch.widths['rotation']:.2f}, horizontal scale {epoch.widths['scale_x']:.2f}" in text
    assert "shear" not in text


@pytest.mark.parametrize("width", [80, 60])
def test_a_line_is_not_wrapped(width):
    text = shown(full_run().history[29], steps=(10.4,), width=width)
    lines = [part for line in text.splitlines() for part in line.split("\r") if "epoch" in part]
    assert len(lines) >= 4
    assert all("evidence" in line or "epoch 11" in line for line in lines)


def test_lines_elsewhere(capsys):
    (lines,) = progress_of("learn")
    lines.on_fit_start(FitConfig(epochs=1))
    lines.on_epoch(replace(full_run().history[0], epoch=1))
    lines.on_phase("testing")
    printed = capsys.readouterr().err.splitlines()
    assert printed[0].startswith("learn: training, epoch 1 of 1, log-likelihood -0.300")
    assert printed[1].startswith("learn: testing, epoch 1 of 1, log-likelihood -0.300")


def test_the_log_likelihood_is_shown_before_the_first_evidence():
    assert "log-likelihood -0.300" in shown(full_run().history[0])


def test_a_terminal_keeps_the_line_that_says_where_a_fit_continues():
    console = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    bar = ProgressBar("[rotated] digits", console)
    bar.on_fit_start(FitConfig(epochs=60))
    bar.on_resume(10)
    bar.on_fit_end()
    assert "[rotated] digits: continuing after 10 of 60 epochs\n" in console.file.getvalue()


def test_the_last_epoch_is_not_exceeded():
    text = shown(steps=(2.0,), num_epochs=2)
    assert "epoch 2 of 2" in text
    assert "epoch 3" not in text
