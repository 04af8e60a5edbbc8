"""`covary layers`: what it writes, what it prints, and what it takes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import covary
from cli.outcomes import assert_one_line_and_code_2
from covary.config import FitConfig, layers_config
from covary.data import load, resized
from covary.errors import CovaryError
from covary.experiments.starts import Choice
from covary.likelihoods import Categorical
from covary.priors import Prior, weights_of
from covary.records import RunRecord, read_run
from covary.training import learner, measure
from covary.training.hyper import hyper_step

SHORT = (
    "--epochs",
    "2",
    "--set",
    "weights.warmup_epochs=1",
    "--set",
    "hyper.burn_in=1",
    "--set",
    "hyper.every=1",
    "--set",
    "weights.batch_size=20",
    "--set",
    "evaluation.num_error_data=0",
)
QUICK = ("--alpha", "1", "--set", "size=4", *SHORT, "--set", "weights.batch_size=20")


@pytest.fixture
def small(images) -> tuple[str, ...]:
    """The arguments of the smallest run of layers."""
    return ("--data", str(images), *QUICK)


def test_without_options_the_settings_are_the_defaults(run, monkeypatch):
    seen = []

    def stop(config, out, **options):
        seen.append(config)
        raise CovaryError("seen")

    monkeypatch.setattr("covary.experiments.discover", stop)
    run("layers")
    run("layers", "--variant", "s-fc", "--alpha", "2", "--prune", "0.05")
    assert seen[0] == layers_config("f-fc+conv", 4)
    assert (seen[0].augment, seen[0].fit) == ("none", FitConfig.preset("layers"))
    assert (seen[1].network, seen[1].prune) == ("relaxed:s-fc:2", 0.05)
    run("layers", "--start", "equivariant")
    assert seen[2] == layers_config("f-fc+conv", 4, relaxation=0.3)
    assert (seen[2].relaxation, seen[2].fit) == (0.3, FitConfig.preset("layers-equivariant"))


def test_the_best_start_is_said_and_used(run, monkeypatch):
    seen = []

    def stop(config, out, **options):
        seen.append(config)
        raise CovaryError("seen")

    better = layers_config("f-fc+conv", 4, relaxation=0.3)
    monkeypatch.setattr("covary.experiments.discover", stop)
    monkeypatch.setattr(
        "covary.experiments.starts.best_start",
        lambda config, task: Choice("equivariant", better, {"free": -2.0, "equivariant": -1.5}),
    )
    assert "start: equivariant, by the log evidence" in run("layers", "--start", "best").err
    assert seen == [better]
    assert_one_line_and_code_2(run("layers", "--start", "middle"), "start", "'free', 'equivariant', 'best'")


def test_end_to_end(run, small, tmp_path):
    code, out, err = run("layers", *small, "--prune", "0.01", "--baselines", "map,conv", "--out", "a")
    assert (code, err) == (0, "")
    names = {"model.safetensors", "report.html", "run.json", "pruned.safetensors"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == names
    record = read_run(tmp_path / "a")
    assert record.title == "bars, 4×4: 40 images, relaxed:f-fc+conv:1"
    assert [layer.name for layer in record.layers] == [f"network.blocks.{number}" for number in range(8)]
    for layer in record.layers:
        assert [path.name for path in layer.paths] == ["f-fc", "conv"]
        assert sum(path.relative for path in layer.paths) == pytest.approx(1)
    assert record.layers[0].shift_error > 0
    assert record.symmetries == []
    assert record.samples is None
    assert [baseline.name for baseline in record.baselines] == ["map", "conv"]
    assert record.pruned.num_params <= record.pruned.num_params_before
    assert record.pruned.evidence_before.log_evidence == pytest.approx(record.evidence.log_evidence, rel=1e-4)
    assert "mean (" in record.notes[-1]
    page = (tmp_path / "a" / "report.html").read_text()
    for text in ("layer 8", "f-fc", "shift error", "nats per datum", "accuracy %", "pruned", "a/report.html"):
        assert text in out
    assert "transform" not in out
    assert "figure-architecture" in page
    evidences = [record.evidence, *(baseline.evidence for baseline in record.baselines)]
    assert len({evidence.log_evidence for evidence in evidences}) == 3, "each network has its own"
    assert any(value != 1 for value in record.history[-1].precisions.values()), "precisions are learned"


def test_json_has_the_layers_and_a_complete_run_is_shown_again(run, small, undrawn):
    code, out, err = run("layers", *small, "--json", "--out", "a")
    printed = json.loads(out)
    assert (code, err) == (0, "")
    assert [layer["learned"] for layer in printed["layers"]] == [layer.learned for layer in read_run(Path("a")).layers]
    assert printed["pruned"] is None
    again = run("layers", *small, "--out", "a", "--resume")
    assert again.code == 0
    assert "layer 8" in again.out
    assert_one_line_and_code_2(run("layers", *small, "--out", "a", "--resume", "--variant", "conv"), "network")


@pytest.mark.parametrize("variant", ["s-fc+s-conv", "f-fc+conv+gconv", "gconv-separable"])
def test_variants(run, small, undrawn, variant):
    arguments = ("--set", f"network=relaxed:{variant}:1:hyperparameter") if variant.startswith("s-") else ()
    assert run("layers", *small, "--variant", variant, *arguments, "--out", "a").code == 0
    record = read_run(Path("a"))
    assert {path.name for path in record.layers[0].paths} == set(variant.split("-s")[0].split("+"))
    assert (record.layers[0].turn_error is not None) == ("gconv" in variant)


def test_invariance_and_equivariance_in_one_run(run, small, undrawn):
    arguments = ("--set", "augment=affine:rotation", "--set", "num_samples=2", "--set", "train_augment=flips+shifts")
    arguments += ("--set", "hyper.width_optimizer=adam")  # which does not wait until the network knows something
    assert run("layers", *small, *arguments, "--out", "a").code == 0
    record = read_run(Path("a"))
    assert [symmetry.name for symmetry in record.symmetries] == ["rotation"]
    assert record.history[0].widths != record.history[-1].widths
    assert record.layers[0].name == "network.network.blocks.0"
    assert record.test.num_samples == 2
    assert record.samples.shape[-2:] == [4, 4]


def test_a_task_has_four_times_the_classes(run, small, undrawn):
    assert run("layers", *small, "--task", "quadrant", "--out", "a").code == 0
    assert read_run(Path("a")).coverage[-1].shape == [8]
    assert read_run(Path("a")).title.startswith("bars, digit and quadrant: 40 images")


def test_a_stopped_run_goes_on_to_the_same_bits(run, small, undrawn, monkeypatch):
    arguments = (*small, "--variant", "fc+conv", "--prune", "0.9", "--epochs", "3")

    def step_and_be_told_to_end(*state):
        os.kill(os.getpid(), signal.SIGTERM)
        return hyper_step(*state)

    with monkeypatch.context() as patch:
        patch.setattr(learner, "hyper_step", step_and_be_told_to_end)
        stopped = run("layers", *arguments, "--out", "a")
    assert (stopped.code, stopped.out) == (143, "")
    assert stopped.err.startswith("error: Stopped by a signal in epoch 2 of 3")
    assert not Path("a/pruned.safetensors").exists()
    assert run("layers", *arguments, "--out", "a", "--resume").code == 0
    assert run("layers", *arguments, "--out", "b").code == 0
    for name in ("model.safetensors", "pruned.safetensors"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    resumed, undisturbed = without_times(read_run(Path("a"))), without_times(read_run(Path("b")))
    assert resumed == undisturbed
    assert resumed.pruned.removed


def without_times(record: RunRecord) -> RunRecord:
    return replace(record, seconds=0.0, timings={}, history=[replace(epoch, seconds=0.0) for epoch in record.history])


def test_plan(run, small, tmp_path):
    code, out, err = run("layers", *small, "--estimate", "--out", "a")
    assert (code, err) == (0, "")
    assert "network.blocks.0.paths.f-fc.read.weight" in out
    assert "40 × 1" in out
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--variant", "wobble"), ["wobble", "f-fc+conv"]),
        (("--alpha", "0"), ["'alpha' to be a whole number from 1 to 1,000, got 0"]),
        (("--alpha", "-3"), ["'alpha' to be a whole number from 1 to 1,000, got -3"]),
        (("--alpha", "100000"), ["alpha", "got 100000"]),
        (("--alpha", "99999999999999999999"), ["alpha", "got 99999999999999999999"]),
        (
            ("--alpha", "1000", "--variant", "fc", "--set", "size=1024", "--estimate"),
            ["weights on data of shape (1, 1024, 1024)", "narrower"],
        ),
        (("--seed", "99999999999999999999"), ["seed", "2^63"]),
        (("--task", "quadrant", "--num-train", "2"), ["no training image of class", "larger --num-train"]),
        (("--variant", "conv", "--baselines", "conv"), ["'conv' would be this network itself"]),
        (
            ("--set", "network=relaxed:f-fc+conv:1:weight"),
            ["has no sparse path", "s-conv, s-fc, s-fc+s-conv"],
        ),
        (("--alpha", "wide"), ["--alpha", "valid integer"]),
        (("--set", "network=relaxed:f-fc+conv:1:long"), ["Expected length_scale='fixed'", "got 'long'"]),
        (("--set", "network=relaxed:s-fc:1:long"), ["'fixed', 'weight', 'hyperparameter'", "got 'long'"]),
        (("--prune", "1.5"), ["between 0 and 1", "got 1.5"]),
        (("--baselines", "plain"), ["'plain' is about an augmentation"]),
        (("--task", "digits"), ["'none', 'regression', 'digit', 'quadrant'"]),
        (("--set", "size=2"), ["'size' to be a whole number from 4 to 1,024", "got 2"]),
        (("--network", "mlp"), ["--network"]),
        (("--set", "network=mlp:8"), ["relaxed:f-fc+conv:4", "got 'mlp:8'", "covary discover"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(run, small, tmp_path, arguments, words):
    assert_one_line_and_code_2(run("layers", *small, "--out", "a", *arguments), *words)
    assert not (tmp_path / "a").exists()


def test_prune_is_no_option_of_discover(run, quick):
    """Every network of `layers` has relaxed layers; that of `discover` may have none."""
    outcome = run("discover", *quick, "--prune", "0.1", "--out", "b")
    assert_one_line_and_code_2(outcome, "No such option", "--prune")


def test_images_that_are_not_square_are_taken_as_they_are(run, tmp_path, undrawn):
    random = np.random.default_rng(0)
    arrays = {"x_train": random.random((12, 6, 4)), "y_train": np.arange(12) % 2}
    np.savez(tmp_path / "oblong.npz", **arrays)
    small = ("--data", "oblong.npz", *QUICK[:2], *QUICK[4:], "--out", "a")
    assert_one_line_and_code_2(run("layers", *small), "square images", "6×4 pixels", "--set size=none")
    assert run("layers", *small, "--set", "size=none").code == 0
    assert read_run(Path("a")).config["size"] is None
    assert read_run(Path("a")).title.startswith("oblong: 12 images")


@pytest.mark.parametrize("augmented", [False, True])
def test_the_simpler_network_can_be_loaded_and_does_not_outlive_its_run(run, small, images, undrawn, augmented):
    arguments = ("--set", "augment=affine:rotation", "--set", "num_samples=2") if augmented else ()
    arguments += ("--variant", "fc+conv", "--prune", "0.9")
    assert run("layers", *small, *arguments, "--out", "a").code == 0
    record = read_run(Path("a"))
    assert record.pruned.removed
    simple = covary.load("a/pruned.safetensors").network
    assert sum(weight.numel() for weight in weights_of(simple).values()) == record.pruned.num_params
    found = measure(simple, Categorical(), resized(load(str(images)), 4).test)
    assert found == record.pruned.test
    assert set(Prior(simple).names) == record.pruned.precisions.keys()
    assert len(set(record.pruned.precisions.values())) > 1, "each tensor has its own"
    whole = covary.load("a").evaluate(resized(load(str(images)), 4).test)
    assert (whole.accuracy, whole.nll) == (record.test.accuracy, record.test.nll)
    assert whole.nll != found.nll, "the control: the whole network predicts otherwise"
    if augmented:
        names = {"model.safetensors", "report.html", "run.json"}
        assert {path.name for path in Path("a").iterdir()} == names | {"augment.json", "pruned.safetensors"}
        assert run("layers", *small, "--out", "a", "--overwrite").code == 0
        assert {path.name for path in Path("a").iterdir()} == names
