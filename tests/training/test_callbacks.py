"""Callbacks hear of a fit as it runs; without any, progress is printed as plain text."""

import io

import pytest

import covary
from covary.errors import StructureError
from covary.training.callbacks import ProgressPrinter, ProgressTracker, as_callbacks
from training_models import QUICK, averaged, points


class Recorded(covary.Callback):
    def __init__(self):
        self.calls = []

    def on_fit_start(self, config):
        self.calls.append(("start", config.epochs))

    def on_resume(self, epochs):
        self.calls.append(("resume", epochs))

    def on_phase(self, phase):
        self.calls.append(("phase", phase))

    def on_step(self, epochs):
        self.calls.append(("step", round(epochs, 3)))

    def on_epoch(self, epoch):
        self.calls.append(("epoch", epoch.epoch))

    def on_fit_end(self):
        self.calls.append(("end",))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed(file, epochs=4):
    covary.fit(averaged(), points(), QUICK, epochs=epochs, callbacks=[ProgressPrinter(file)])
    return file.getvalue()


def test_callbacks_hear_of_start_steps_epochs_and_end():
    recorded, epochs = Recorded(), []
    run = covary.fit(averaged(), points(), QUICK, epochs=2, callbacks=[recorded, epochs.append, covary.Callback()])
    steps = [[("step", round(epoch + step / 3, 3)) for step in range(3)] for epoch in range(2)]
    training, evaluating = ("phase", "training"), ("phase", "evaluating")
    first, second = [training, *steps[0], ("epoch", 1)], [training, *steps[1], evaluating, ("epoch", 2)]
    assert recorded.calls == [("start", 2), *first, *second, evaluating, ("end",)]
    assert epochs == run.record.history


def test_a_resumed_fit_says_where_it_continues(tmp_path, capsys):
    recorded = Recorded()

    def fit(resume, callbacks):
        checkpoints = covary.Checkpoints(tmp_path, every=2, resume=resume)
        covary.fit(averaged(), points(), QUICK, epochs=4, checkpoints=checkpoints, callbacks=callbacks)

    def kill(epoch):
        if epoch.epoch == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fit(False, [recorded, kill])
    assert not any(call[0] == "resume" for call in recorded.calls)
    fit(True, [recorded, ProgressPrinter(title="learn")])
    assert recorded.calls[recorded.calls.index(("end",)) + 1 :][:2] == [("start", 4), ("resume", 2)]
    assert capsys.readouterr().err.splitlines()[0] == "learn: continuing after 2 of 4 epochs"


def test_the_test_is_a_phase_of_its_own():
    recorded = Recorded()
    covary.fit(averaged(), points(), QUICK, test=points(), callbacks=[recorded], epochs=2)
    assert recorded.calls[-2:] == [("phase", "testing"), ("end",)]


def test_the_end_is_heard_of_after_an_error():
    def fail(epoch):
        raise RuntimeError

    recorded = Recorded()
    with pytest.raises(RuntimeError):
        covary.fit(averaged(), points(), QUICK, callbacks=[recorded, fail])
    assert recorded.calls[-1] == ("end",)


def test_a_log_has_about_ten_lines_with_evidence_and_time_left():
    lines = printed(io.StringIO(), epochs=25).splitlines()
    assert 10 <= len(lines) <= 14
    assert lines[0].startswith("training, epoch 1 of 25, log-likelihood ")
    assert lines[1].startswith("training, epoch 2 of 25, estimated log evidence ")
    assert "rotation " in lines[1]
    assert lines[1].endswith(" left")
    assert lines[-1].startswith("training, epoch 25 of 25")
    assert "left" not in lines[-1]


def test_a_terminal_has_one_line_that_is_rewritten():
    text = printed(Terminal())
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "\rtraining [--" in text
    assert "] epoch 4 of 4, evaluated log evidence " in text
    assert "\revaluating [##" in text
    assert max(len(part) for part in text.strip().split("\r")) < 80


def test_a_log_has_a_line_before_an_evaluation_only_after_some_quiet(monkeypatch):
    assert "evaluating" not in printed(io.StringIO())
    monkeypatch.setattr("covary.training.callbacks.QUIET_SECONDS", -1.0)
    assert "evaluating, epoch 4 of 4" in printed(io.StringIO())


def test_the_time_left_falls_between_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("covary.training.callbacks.time.monotonic", lambda: now[0])
    tracker = ProgressTracker()
    tracker.on_fit_start(covary.FitConfig(epochs=10))
    tracker.on_step(0.0)
    now[0] = 30.0
    tracker.on_step(3.0)
    assert tracker.now().left == 70.0
    now[0] = 45.0
    assert (tracker.now().left, tracker.now().elapsed) == (55.0, 45.0)
    now[0] = 450.0
    assert tracker.now().left == 0.0


def test_no_time_is_left_before_hyper_steps_were_timed(monkeypatch):
    """Earlier the estimate of the burn-in, whose epochs are fast, was shown: a twentieth of what followed."""
    now = [0.0]
    monkeypatch.setattr("covary.training.callbacks.time.monotonic", lambda: now[0])
    tracker = ProgressTracker()
    tracker.on_fit_start(covary.FitConfig().replace(epochs=6, hyper={"burn_in": 2}))
    for epochs in (0.5, 1.0, 1.5, 2.0, 2.5):
        now[0] = epochs
        tracker.on_step(epochs)
        assert tracker.now().left is None
    now[0] = 22.0  # 20 s for the first epoch with hyper steps
    tracker.on_step(3.0)
    assert tracker.now().left == 60.0


def test_without_callbacks_progress_is_printed_and_with_none_it_is_not(capsys):
    covary.fit(averaged(), points(), QUICK)
    assert "epoch 4 of 4" in capsys.readouterr().err
    covary.fit(averaged(), points(), QUICK, callbacks=())
    assert capsys.readouterr() == ("", "")


def test_one_function_asks_for_a_list():
    with pytest.raises(StructureError, match=r"Expected a list of callbacks, got .*Pass \[callback\]"):
        as_callbacks(print)
