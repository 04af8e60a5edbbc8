"""A fit writes a log beside its checkpoints; one that cannot be written does not stop it."""

from dataclasses import replace

import pytest

import covary
from covary.config import FitConfig
from covary.records.progress import LogReader
from covary.training.log import ProgressLog
from report.runs import full_run
from training_models import QUICK, averaged, points


def test_a_fit_logs_its_phases_and_epochs_and_a_resumed_one_starts_from_its_checkpoint(tmp_path):
    def fit(**options):
        places = covary.Checkpoints(tmp_path, every=1, **options)
        return covary.fit(averaged(), points(), QUICK, epochs=2, checkpoints=places, callbacks=()).record

    record = fit()
    events = LogReader(tmp_path / "progress.jsonl").read()
    assert events[0].num_epochs == 2
    assert [event.epoch for event in events if event.event == "epoch"] == record.history
    assert events[1].phase == "training"
    assert [event.phase for event in events if event.phase] == ["training", "evaluating"]
    fit(resume=True)
    again = LogReader(tmp_path / "progress.jsonl").read()
    assert [event.epoch for event in again if event.event == "epoch"] == record.history


def test_a_log_that_cannot_be_written_is_one_warning(tmp_path):
    log = ProgressLog(tmp_path / "absent", [])
    with pytest.warns(UserWarning, match="The fit goes on"):
        log.on_phase("training")
    log.on_epoch(full_run().history[0])  # no other warning, which would be an error


def test_a_number_that_is_not_finite_is_a_warning_too(tmp_path):
    log = ProgressLog(tmp_path, [])
    log.on_fit_start(FitConfig(epochs=2))
    with pytest.warns(UserWarning, match="not JSON compliant"):
        log.on_epoch(replace(full_run().history[0], log_likelihood=float("nan")))
