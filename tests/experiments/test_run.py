"""The main job as a function: what its folder holds when it ends, and when it does not."""

import errno
import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from covary.errors import DataError, StructureError
from covary.experiments import discover as run_discover
from covary.experiments.begun import Begun, begin
from covary.records import read_run
from covary.training import Run
from experiments.small import SETTINGS, config


class Stop(Exception):
    """The end of a process."""


def stop_after(monkeypatch, number: int) -> None:
    """A process that ends right after a run was saved so many times."""
    save, saved = Run.save, []

    def saving(run, folder):
        saved.append(save(run, folder))
        if len(saved) == number:
            raise Stop
        return saved[-1]

    monkeypatch.setattr(Run, "save", saving)


def test_the_record_that_is_returned_is_the_one_that_is_kept(tmp_path):
    record = run_discover(config(tmp_path, baselines=("plain",)), tmp_path / "a")
    kept = read_run(tmp_path / "a")
    assert set(kept.files) == {"model.safetensors", "augment.json"}
    assert replace(kept, files={}) == replace(record, config=json.loads(json.dumps(record.config)))
    assert record.title == "bars: 30 images, mlp:4"
    assert set(record.samples.labels) == {"0", "1"}
    assert [baseline.name for baseline in record.baselines] == ["plain"]


def test_a_run_without_its_baselines_is_not_complete(tmp_path, monkeypatch):
    settings = config(tmp_path, baselines=("plain",))
    with monkeypatch.context() as patched:
        stop_after(patched, 1)
        with pytest.raises(Stop):
            run_discover(settings, tmp_path / "a")
    early = read_run(tmp_path / "a")
    assert (early.complete, early.baselines) == (False, [])
    with pytest.raises(StructureError, match="unfinished run"):
        run_discover(settings, tmp_path / "a")
    resumed = run_discover(settings, tmp_path / "a", resume=True)
    assert (resumed.complete, len(resumed.baselines)) == (True, 1)
    assert resumed.symmetries == early.symmetries
    assert not (tmp_path / "a" / "checkpoints").exists()


def test_an_unfinished_run_goes_on_with_the_same_settings_only(tmp_path, monkeypatch):
    settings = config(tmp_path, baselines=("plain",))
    with monkeypatch.context() as patched:
        stop_after(patched, 1)
        with pytest.raises(Stop):
            run_discover(settings, tmp_path / "a")
    for changes, expected in (
        ({"num_samples": 3}, "num_samples = 2, got 3"),
        ({"baselines": ()}, "baselines = \\['plain'\\], got \\[\\]"),
        ({"fit": SETTINGS.replace(epochs=4)}, "epochs = 3, got 4"),
    ):
        with pytest.raises(StructureError, match=expected):
            run_discover(replace(settings, **changes), tmp_path / "a", resume=True)
    written = tmp_path / "a" / "checkpoints" / "settings.json"
    for text in ("3", "[" * 100_000, None):
        written.unlink() if text is None else written.write_text(text)
        with pytest.raises(DataError, match=r"settings\.json cannot be read"):
            run_discover(settings, tmp_path / "a", resume=True)


def test_a_complete_run_is_returned_when_resumed(tmp_path):
    settings = config(tmp_path)
    first = run_discover(settings, tmp_path / "a")
    again = run_discover(settings, tmp_path / "a", resume=True)
    assert (again.seconds, again.history) == (first.seconds, first.history)
    with pytest.raises(StructureError, match="num_samples = 2, got 3"):
        run_discover(replace(settings, num_samples=3), tmp_path / "a", resume=True)


def test_data_by_another_spelling_of_their_path_are_the_same_data(tmp_path, monkeypatch):
    settings = config(tmp_path)
    stopped = config(tmp_path, baselines=("plain",))
    first = run_discover(settings, tmp_path / "a")
    with monkeypatch.context() as patched:
        stop_after(patched, 1)
        with pytest.raises(Stop):
            run_discover(stopped, tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moved.npz").write_bytes((tmp_path / "bars.npz").read_bytes())
    for spelled in ("bars.npz", "./bars.npz", f"{tmp_path}/./bars.npz"):
        again = run_discover(replace(settings, data=spelled), tmp_path / "a", resume=True)
        assert again.history == first.history
    assert run_discover(replace(stopped, data="moved.npz"), tmp_path / "b", resume=True).complete


def other_data(folder) -> None:
    """Change one pixel of the training images."""
    arrays = dict(np.load(folder / "bars.npz"))
    arrays["x_train"][3, 0, 2, 2] = 0.5
    np.savez(folder / "bars.npz", **arrays)


def test_a_complete_run_on_other_data_is_not_returned(tmp_path):
    settings = config(tmp_path)
    run_discover(settings, tmp_path / "a")
    other_data(tmp_path)
    with pytest.raises(StructureError, match="same settings on other data: their SHA-256 was"):
        run_discover(settings, tmp_path / "a", resume=True)


def test_a_run_that_ended_before_its_first_checkpoint_is_resumed_and_not_the_one_before(tmp_path, monkeypatch):
    settings = config(tmp_path)
    first = run_discover(settings, tmp_path / "a")
    other_data(tmp_path)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("covary.experiments.run.learn", killed)
        with pytest.raises(KeyboardInterrupt):
            run_discover(settings, tmp_path / "a", overwrite=True)
    assert read_run(tmp_path / "a").evidence == first.evidence, "until the new one is complete"
    resumed = run_discover(settings, tmp_path / "a", resume=True)
    assert resumed.evidence != first.evidence
    assert resumed.config["data_sha256"] != first.config["data_sha256"]
    assert read_run(tmp_path / "a").evidence == resumed.evidence


def test_a_run_that_could_not_start_leaves_nothing_to_resume(tmp_path, monkeypatch):
    def refused(*arguments):
        raise DataError("no")

    monkeypatch.setattr("covary.experiments.run.learn", refused)
    with pytest.raises(DataError):
        run_discover(config(tmp_path), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_full_disk_at_the_start_leaves_nothing(tmp_path, monkeypatch):
    def full(path, text):
        path.parent.mkdir(parents=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("covary.experiments.begun.write_text", full)
    with pytest.raises(OSError, match="No space left on device"):
        run_discover(config(tmp_path), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_damaged_files_of_a_run_may_be_overwritten(tmp_path):
    settings, out = config(tmp_path), tmp_path / "a"
    (out / "checkpoints" / "learn").mkdir(parents=True)
    (out / "checkpoints" / "learn" / "checkpoint-000001-000000.safetensors").touch()
    (out / "checkpoints" / "settings.json").write_text("{")
    (out / "run.json").write_text("{")
    with pytest.raises(StructureError, match="unfinished run"):
        run_discover(settings, out)
    with pytest.raises(DataError, match="Pass --overwrite to start anew"):
        run_discover(settings, out, resume=True)
    assert run_discover(settings, out, overwrite=True).complete
    assert {path.name for path in out.iterdir()} == {"run.json", "model.safetensors", "augment.json"}


@pytest.mark.parametrize("name", ["checkpoints", ".checkpoints-done"])
def test_what_a_link_in_the_place_of_checkpoints_points_to_is_kept(tmp_path, name):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).symlink_to("../precious")
    begin(tmp_path / "a" / "checkpoints", Begun({}, None))
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"checkpoints"}
    assert not (tmp_path / "a" / "checkpoints").is_symlink()
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file"]


def test_a_pruning_is_recorded_and_lies_beside_the_network(tmp_path):
    settings = config(tmp_path, network="relaxed:fc+conv:1", augment="none", standardize=True, prune=0.9)
    record = run_discover(settings, tmp_path / "a")
    done = record.pruned
    assert read_run(tmp_path / "a").pruned == done
    assert done.threshold == 0.9
    assert done.removed, "so large a threshold leaves one path in some layer"
    assert all(name.rpartition(".")[0] in {layer.name for layer in record.layers} for name in done.removed)
    tensors = load_file(tmp_path / "a" / "pruned.safetensors")
    weights = {name: tensor for name, tensor in tensors.items() if name not in ("mean", "deviation")}
    assert sum(tensor.numel() for tensor in weights.values()) == done.num_params
    gone = [f"{layer}.paths.{path}." for layer, path in (name.rsplit(".", 1) for name in done.removed)]
    assert not [name for name in weights if name.startswith(tuple(gone))]
    assert done.test.num_data == record.test.num_data


def test_prune_without_relaxed_layers_is_refused_before_work(tmp_path):
    with pytest.raises(StructureError, match="the network 'mlp:4' has none"):
        run_discover(config(tmp_path, prune=0.1), tmp_path / "a")
    assert not (tmp_path / "a").exists()
