"""`covary discover --track`: the run in the files of a tracker."""

import json
import sys
from pathlib import Path

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary.records import read_run

SHORT = ("--network", "mlp:4", "--augment", "affine:rotation", "--num-samples", "2", "--epochs", "2")


def test_a_run_is_logged_with_its_resolved_settings_widths_and_images(run, images):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    code, _, err = run(
        *("discover", "--data", str(images), *SHORT, "--baselines", "plain", "--out", "here", "--track", "tensorboard")
    )
    assert (code, err) == (0, "")
    record, events = read_run(Path("here")), EventAccumulator("here/tensorboard").Reload()
    read = {event.step: event.value for event in events.Scalars("widths/rotation")}
    assert read == pytest.approx({epoch.epoch: epoch.widths["rotation"] for epoch in record.history})
    assert events.Scalars("test/accuracy")[0].value == pytest.approx(record.test.accuracy)
    assert events.Images("learned augmentation")[0].height == 6 * 8 - 2
    text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    settings = json.loads("\n".join(line[4:] for line in text.splitlines()))
    assert settings["network"] == "mlp:4"
    assert settings["fit.epochs" if "fit.epochs" in settings else "epochs"] == 2


def test_an_unknown_tracker_and_a_missing_library_end_before_training(run, images, monkeypatch, tmp_path):
    assert_one_line_and_code_2(run("discover", "--data", str(images), "--track", "paper"))
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "covary.integrations.mlflow", raising=False)
    outcome = run("discover", "--data", str(images), *SHORT, "--out", "there", "--track", "mlflow")
    assert_one_line_and_code_2(outcome)
    assert 'pip install "covary[mlflow]"' in outcome.err
    assert not (tmp_path / "there").exists()
