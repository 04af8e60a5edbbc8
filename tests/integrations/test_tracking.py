"""Trackers: what a fit writes is read back by the libraries themselves, without a network."""

import json
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import covary
from covary.errors import StructureError
from covary.integrations.tracking import Tracker, Tracking, learning_rates, log_run, scalars_of, sheet_of, tracker_of
from covary.records import Epoch, Pictures
from training_models import QUICK

SHORT = QUICK.replace(epochs=2)


class Kept:
    """A tracker that keeps what it is given."""

    def __init__(self):
        self.config, self.scalars, self.images, self.closed = {}, {}, {}, False

    def log_config(self, config):
        self.config |= config

    def log_scalars(self, scalars, step):
        self.scalars.setdefault(step, {}).update(scalars)

    def log_image(self, name, image, step):
        self.images[name, step] = image

    def close(self):
        self.closed = True


def fitted(tracker, **options):
    torch.manual_seed(0)
    x = torch.rand(12, 1, 6, 6)
    network = covary.Averaged(covary.networks.mlp(36, 3, 2), covary.augment.Affine2d(("rotation", "shift_x")), 2)
    tracking = Tracking(tracker, images=x[:3], augment=network.augment, **options)
    return covary.fit(network, (x, torch.arange(12) % 2), SHORT, callbacks=[tracking])


@pytest.fixture
def offline(monkeypatch):
    """Without a network: a connection to another machine is an error."""
    connect = socket.socket.connect

    def local(self, address):
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a connection to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


def test_a_fit_is_logged_with_its_settings_and_numbers_and_images():
    tracker = Kept()
    assert isinstance(tracker, Tracker)
    run = fitted(tracker)
    assert tracker.closed
    assert tracker.config["weights.lr"] == SHORT.weights.lr
    assert tracker.config["epochs"] == 2
    assert sorted(tracker.scalars) == [1, 2]
    for epoch in run.record.history:
        found = tracker.scalars[epoch.epoch]
        assert found["log_likelihood"] == epoch.log_likelihood
        assert found["widths/rotation"] == epoch.widths["rotation"]
        assert found["lr/weights"] > 0
    last = run.record.history[-1]
    assert tracker.scalars[2]["evidence/log_evidence"] == last.evaluated.log_evidence
    assert "evidence/log_evidence" not in scalars_of(Epoch(1, -1.0, {}, {}, None, None, 0.0, False))
    assert {name for name, _ in tracker.images} == {"augmentation"}
    assert tracker.images["augmentation", 2].shape == (3 * 8 - 2, 8 * 8 - 2, 3)


def test_learning_rates_are_those_of_the_optimizers():
    """The cosine by its formula, and a warm-up that rises linearly."""
    config = SHORT.replace(epochs=10, weights={"warmup_epochs": 4, "lr": 0.1, "lr_min": 0.0}, hyper={"burn_in": 3})
    assert learning_rates(2, config)["lr/weights"] == pytest.approx(0.5 * 0.05 * (1 + np.cos(0.2 * np.pi)))
    assert learning_rates(10, config)["lr/weights"] == pytest.approx(0, abs=1e-12)
    assert "lr/prior" not in learning_rates(3, config)
    assert learning_rates(10, config)["lr/prior"] == pytest.approx(config.hyper.lr_range("prior")[1])


def test_the_callers_settings_are_logged_and_the_tracker_stays_open():
    tracker = Kept()
    run = fitted(tracker, config={"data": "mine"}, close=False)
    assert tracker.config == {"data": "mine"}
    assert not tracker.closed
    log_run(tracker, run.record)
    assert ("learned augmentation", 2) in tracker.images


def test_a_sheet_has_a_row_for_each_image():
    pictures = Pictures([2, 2, 1, 1, 2], "AAECAwQFBgc=", ["0", "1"], [])
    sheet = sheet_of(pictures)
    assert sheet.shape == (4, 6, 3)
    assert sheet[0, :2, 0].tolist() == [0, 1]
    assert sheet[3, 4:, 1].tolist() == [6, 7]
    assert sheet[1].min() == 255


def test_an_error_closes_the_tracker():
    class Failing(Kept):
        def log_scalars(self, scalars, step):
            raise RuntimeError("full disk")

    tracker = Failing()
    with pytest.raises(RuntimeError, match="full disk"):
        fitted(tracker)
    assert tracker.closed


def test_tensorboard(tmp_path, offline):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fitted(tracker_of("tensorboard", tmp_path))
    events = EventAccumulator(str(tmp_path)).Reload()
    read = {event.step: event.value for event in events.Scalars("widths/rotation")}
    assert read == pytest.approx({epoch.epoch: epoch.widths["rotation"] for epoch in run.record.history})
    assert events.Scalars("evidence/log_evidence")[-1].value == pytest.approx(run.evidence.log_evidence, rel=1e-6)
    text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    settings = json.loads("\n".join(line[4:] for line in text.splitlines()))
    assert settings["weights.lr"] == SHORT.weights.lr
    assert events.Images("augmentation")[-1].width == 8 * 8 - 2


def test_mlflow(tmp_path, offline, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    run = fitted(tracker_of("mlflow", tmp_path, "digits"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert found.info.status == "FINISHED"
    assert float(found.data.params["weights.lr"]) == SHORT.weights.lr
    read = {metric.step: metric.value for metric in client.get_metric_history(found.info.run_id, "widths/rotation")}
    assert read == pytest.approx({epoch.epoch: epoch.widths["rotation"] for epoch in run.record.history})
    assert "augmentation-2.png" in [file.path for file in client.list_artifacts(found.info.run_id)]


def test_mlflow_takes_names_that_it_has_no_letters_for(tmp_path, offline, monkeypatch):
    """Those of widths of a class, which the user has named."""
    mlflow = pytest.importorskip("mlflow")
    tracker = tracker_of("mlflow", tmp_path)
    tracker.log_config({"widths[6]": 1})
    tracker.log_scalars({"widths/rotation[6 or 9?]": 0.5}, 1)
    tracker.close()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("covary").experiment_id])
    assert found.data.metrics == {"widths/rotation_6 or 9__": 0.5}
    assert found.data.params == {"widths_6_": "1"}


def wandb_records(content):
    """The records of a file of Weights & Biases: LevelDB's log format, in blocks of 32 KiB, behind seven bytes."""
    place, record = 7, b""
    while place + 7 <= len(content):
        rest = 32768 - place % 32768
        if rest < 7:  # the end of a block is too short for another header
            place += rest
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def finished_records(file):
    """The records of a finished run: wandb's own process writes them, the last up to some time after `finish`."""
    from wandb.proto import wandb_internal_pb2

    deadline = time.monotonic() + 60
    while True:
        found = [wandb_internal_pb2.Record.FromString(data) for data in wandb_records(file.read_bytes())]
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        assert time.monotonic() < deadline, f"{len(found)} records were written, none of which is the last"
        time.sleep(0.1)


def test_wandb(tmp_path, offline):
    pytest.importorskip("wandb")
    run = fitted(tracker_of("wandb", tmp_path, "digits"))
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    settings, widths = {}, {}
    for record in finished_records(file):
        for update in (record.config.update, record.run.config.update):  # of their own, or with the start of the run
            settings |= {"/".join(item.nested_key) or item.key: item.value_json for item in update}
        entries = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        if "widths/rotation" in entries:
            widths[int(entries["_step"])] = float(entries["widths/rotation"])
    assert float(settings["weights.lr"]) == SHORT.weights.lr
    assert widths == pytest.approx({epoch.epoch: epoch.widths["rotation"] for epoch in run.record.history})
    assert len(list(tmp_path.glob("wandb/offline-run-*/files/media/images/augmentation_*.png"))) == 2


def test_a_run_of_ones_own_in_wandb_stays_apart(tmp_path, offline):
    wandb = pytest.importorskip("wandb")
    own = wandb.init(project="own", mode="offline", dir=str(tmp_path), settings=wandb.Settings(silent=True))
    tracker = tracker_of("wandb", tmp_path)
    assert tracker.run.id != own.id
    tracker.close()
    own.log({"mine": 1.0})  # an error of a run that has ended
    own.finish()


def test_an_unknown_tracker_and_a_missing_library_are_one_line(tmp_path):
    with pytest.raises(StructureError, match="Expected a tracker among tensorboard, wandb, mlflow, got 'paper'"):
        tracker_of("paper", tmp_path)
    source = (
        "import sys; sys.modules['mlflow'] = None\n"
        "from covary.integrations.tracking import tracker_of\n"
        "tracker_of('mlflow', 'here')"
    )
    outcome = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.endswith("'mlflow', which is not installed. Run: pip install \"covary[mlflow]\"")
