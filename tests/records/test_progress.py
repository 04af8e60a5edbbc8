"""A line of progress fits its terminal and says what matters first."""

import math
from dataclasses import replace

import pytest

from covary.records.progress import Progress, clock
from report.runs import full_run

EPOCH = full_run().history[29]
EVIDENCE = f"evidence {EPOCH.evaluated.log_evidence / 5000:.3f}"
STATE = Progress("learn", 60, "evaluating", 30, 30, EPOCH, EPOCH.evaluated, 754.0, 754.0, True)


def test_wide_terminal():
    text = STATE.bar(160)
    assert text == (
        f"learn: evaluating [##########----------] epoch 30 of 60, evaluated log {EVIDENCE}, "
        f"rotation {EPOCH.widths['rotation']:.2f}, horizontal scale {EPOCH.widths['scale_x']:.2f}, "
        "12:34 elapsed, 12:34 left"
    )


@pytest.mark.parametrize("phase", ["training", "evaluating", "testing"])
@pytest.mark.parametrize("title", ["learn", "trivialaugment", ""])
def test_eighty_columns_have_phase_bar_epoch_evidence_and_time_left(phase, title):
    text = replace(STATE, title=title, phase=phase).bar(80)
    assert len(text) <= 80
    assert f"{title}: {phase} [#" in text if title else text.startswith(f"{phase} [#")
    assert (
        f"epoch 30 of 60, evaluated log {EVIDENCE}, 12:34 left" in text
        or f"epoch 30/60, {EVIDENCE}, 12:34 left" in text
    )


@pytest.mark.parametrize("phase", ["training", "evaluating", "testing"])
def test_sixty_columns_have_the_same_in_shorter_words(phase):
    text = replace(STATE, phase=phase).bar(60)
    assert len(text) <= 60
    assert f"{phase} [#" in text
    assert text.endswith(f"epoch 30/60, {EVIDENCE}, 12:34 left")


@pytest.mark.parametrize("width", [0, 1, 20, 40, 59, 61, 79, 81, 100, 200])
def test_no_line_is_longer_than_the_terminal(width):
    for last in (EPOCH, full_run().history[0], None):
        for evidence in (EPOCH.evaluated, None):
            assert len(replace(STATE, last=last, evidence=evidence).bar(width)) <= width


def test_an_epoch_without_an_evidence_keeps_the_one_before():
    state = Progress("", 60)
    state.note(full_run().history[0])
    assert "log-likelihood -0.300" in state.log_line()
    state.note(EPOCH)
    state.note(replace(full_run().history[0], epoch=31))
    assert "epoch 31 of 60" in state.log_line()
    assert f"evaluated log {EVIDENCE}" in state.log_line()


def test_an_estimate_of_hyper_steps_is_told_from_an_evaluation():
    estimate = replace(EPOCH, evidence=EPOCH.evaluated, evaluated=None)
    state = Progress("", 60)
    state.note(estimate)
    assert f"estimated log {EVIDENCE}" in state.log_line()
    assert "evidence ~" in state.bar(45)
    state.note(EPOCH)
    assert f"evaluated log {EVIDENCE}" in state.log_line()
    assert "~" not in state.bar(45)


def test_the_bar_is_full_at_the_end_and_never_beyond():
    assert "[####################]" in replace(STATE, epochs=60).bar(160)
    assert "[####################]" in replace(STATE, epochs=90).bar(160)
    assert "[--------------------]" in replace(STATE, epochs=0).bar(160)


def test_a_log_line_has_the_widths_and_both_times():
    assert STATE.log_line() == (
        f"learn: evaluating, epoch 30 of 60, evaluated log {EVIDENCE}, rotation {EPOCH.widths['rotation']:.2f}, "
        f"horizontal scale {EPOCH.widths['scale_x']:.2f}, 12:34 elapsed, 12:34 left"
    )
    assert "left" not in replace(STATE, left=None).log_line()


@pytest.mark.parametrize(("seconds", "expected"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723, "1:02:03")])
def test_clock(seconds, expected):
    assert clock(seconds) == expected


def test_the_evidence_is_per_datum():
    assert math.isclose(float(EVIDENCE.split()[1]), EPOCH.evaluated.log_evidence / 5000, abs_tol=1e-3)
