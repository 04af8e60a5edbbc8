"""`covary discover`: what it writes, what it prints, and what it takes."""

import json
import math
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from cli.outcomes import assert_one_line_and_code_2
from covary import load
from covary.augment import Affine2d, Composed, Correlated, FiniteGroup
from covary.augment.export import load as load_augmentation
from covary.cli import options
from covary.config import ExperimentConfig
from covary.data.sources import NAMES
from covary.data.transforms import TASKS
from covary.errors import CovaryError
from covary.experiments import AUGMENTATIONS
from covary.networks.named import NAMES as NETWORK_NAMES
from covary.networks.relaxed import VARIANTS
from covary.records import read_run
from covary.records.words import flat_settings
from covary.report import page

DIGITS = ("--data", "mnist-mini", "--num-train", "60", "--network", "mlp:8", "--num-samples", "2", "--epochs", "3")
CODE = """
import torch
from torch import nn

def network(image_shape, num_outputs):
    num_pixels = image_shape[1] * image_shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(num_pixels, 3), nn.ReLU(), nn.Linear(3, num_outputs))

def data():
    x = torch.linspace(0, 1, 12 * 5 * 5).reshape(12, 1, 5, 5)
    return x, torch.arange(12) % 3
"""


def test_without_options_the_settings_are_the_defaults(run, monkeypatch):
    seen = []

    def stop(config, out, **options):
        seen.append(config)
        raise CovaryError("seen")

    monkeypatch.setattr("covary.experiments.discover", stop)
    run("discover")
    assert seen == [ExperimentConfig()]


def printed_config(run, *arguments: str) -> dict:
    code, out, err = run("discover", *arguments, "--print-config")
    assert (code, err) == (0, "")
    return tomllib.loads(out)


def test_printed_settings_are_read_as_a_file(run, tmp_path):
    changes = ("--epochs", "7", "--set", "hyper.lr=0.05", "--set", "num_train=none", "--baselines", "plain,map")
    printed = printed_config(run, *changes)
    assert (printed["epochs"], printed["hyper"]["lr"], printed["baselines"]) == (7, 0.05, ["plain", "map"])
    (tmp_path / "run.toml").write_text(run("discover", *changes, "--print-config").out)
    assert printed_config(run, "--config", "run.toml") == printed
    assert (
        ExperimentConfig.from_toml((tmp_path / "run.toml").read_text()).as_dict()
        == ExperimentConfig().replace(**{"epochs": 7, "hyper.lr": 0.05, "baselines": ("plain", "map")}).as_dict()
    )


def test_set_has_precedence_over_flags_these_over_the_file_and_this_over_the_preset(run, tmp_path):
    (tmp_path / "run.toml").write_text("epochs = 7\nseed = 7\n[weights]\nlr = 0.7\nbatch_size = 7\n")
    found = printed_config(run, "--config", "run.toml", "--epochs", "8", "--seed", "8", "--set", "seed=9",
                           "--set", "weights.lr=0.9")  # fmt: skip
    assert (found["epochs"], found["seed"]) == (8, 9)
    assert (found["weights"]["lr"], found["weights"]["batch_size"]) == (0.9, 7)
    defaults = ExperimentConfig().replace(seed=9).fit.hyper.as_dict()
    assert found["hyper"] == {name: "none" if value is None else value for name, value in defaults.items()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epochs = ", ["'run.toml' is not valid TOML"]),
        ("epoch = 3", ["'epoch'", "'epochs'"]),
        ("epochs = 0", ["epochs"]),
    ],
)
def test_a_bad_file_of_settings_is_one_line(run, tmp_path, text, words):
    (tmp_path / "run.toml").write_text(text)
    assert_one_line_and_code_2(run("discover", "--config", "run.toml"), *words)


def test_names_in_help_are_those_of_the_registries():
    assert options.DATA_NAMES == NAMES
    assert options.TASK_NAMES == TASKS
    assert options.NETWORK_NAMES == NETWORK_NAMES
    assert tuple(VARIANTS) == options.VARIANT_NAMES
    assert options.AUGMENTATION_NAMES == AUGMENTATIONS


def test_a_run_too_short_to_learn_warns_in_one_line(run, quick):
    code, _, err = run("discover", *quick, "--epochs", "1", "--set", "hyper.burn_in=3")
    assert code == 0
    assert err.startswith("warning: No hyper step was taken")
    assert err.count("\n") == 1


def test_digits_end_to_end(run, tmp_path):
    arguments = ("--set", "hyper.burn_in=1", "--set", "dtype=float64", "--symmetrize", "rotate:90", "--out", "first")
    code, out, err = run("discover", *DIGITS, *arguments)
    assert code == 0
    assert err == ""
    assert {path.name for path in (tmp_path / "first").iterdir()} == {
        "augment.json",
        "model.safetensors",
        "report.html",
        "run.json",
    }
    run_record = read_run(tmp_path / "first")
    assert run_record.title == "mnist-mini, rotate:90: 60 images, mlp:8"
    assert run_record.complete
    assert [epoch.epoch for epoch in run_record.history] == [1, 2, 3]
    assert run_record.history[0].evidence is not None, "the first hyper step ends the burn-in of one epoch"
    assert run_record.true_widths == {"rotation": math.pi / 2}
    assert (run_record.test.num_data, run_record.test.num_samples) == (2000, 2)
    terms = run_record.evidence
    assert terms.log_evidence == pytest.approx(terms.log_likelihood + terms.log_prior + terms.log_volume, rel=1e-12)
    assert {"data", "num_train", "symmetrize", "epochs", "seed"} <= run_record.config.keys()
    assert run_record.samples.labels[0] in "0123456789"
    assert [len(matrix) for matrix in run_record.samples.matrices] == [9] * (run_record.samples.shape[1] - 1)
    for text in ("rotation", "°", "pixels", "up to", "log_evidence", "accuracy %", "first/report.html"):
        assert text in out


def test_the_augmentation_loads_back_to_the_learned_widths(discovered):
    folder = discovered("a", "--augment", "flips+affine", "--set", "dtype=float64")
    torch.set_default_dtype(torch.float64)
    try:
        augment = load_augmentation(folder / "augment.json")
    finally:
        torch.set_default_dtype(torch.float32)
    learned = {symmetry.name: symmetry.width for symmetry in read_run(folder).symmetries}
    assert isinstance(augment, Composed)
    assert list(learned) == list(augment.names)
    assert list(learned.values()) == pytest.approx(augment.widths.tolist(), rel=1e-12)
    assert learned["rotation"] != 0.05, "it was learned"


def test_parts_keep_their_flow_and_their_correlation(discovered):
    record = read_run(discovered("a", "--augment", "flips+correlated:rotation,shift_x"))
    assert [len(matrix) for matrix in record.samples.matrices] == [9] * (record.samples.shape[1] - 1)
    assert [row[:3] for row in record.correlation[:3]] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert len(record.correlation) == 5


def test_json_is_all_that_is_printed(run, quick, undrawn):
    code, out, err = run("discover", *quick, "--out", "a", "--json")
    printed = json.loads(out)
    record = read_run(Path("a"))
    assert code == 0
    assert err == ""
    assert printed["out"] == "a"
    assert printed["evidence"]["log_evidence"] == record.evidence.log_evidence
    assert [row["width"] for row in printed["symmetries"]] == [symmetry.width for symmetry in record.symmetries]


def test_baselines(run, quick, undrawn):
    names = ("plain", "fixed", "augerino")
    arguments = ("--baselines", ",".join(names), "--set", "fixed_widths={rotation=1.5, shift_x=0.25}", "--out", "a")
    code, out, _ = run("discover", *quick, *arguments)
    assert code == 0
    assert all(name in out for name in names)
    record = read_run(Path("a"))
    plain, fixed, augerino = record.baselines
    assert (plain.name, fixed.name, augerino.name) == names
    assert plain.symmetries == []
    assert {symmetry.name: round(symmetry.width, 5) for symmetry in fixed.symmetries if symmetry.width} == {
        "rotation": 1.5,
        "shift_x": 0.25,
    }
    assert augerino.evidence is None
    assert plain.evidence is not None
    assert all(baseline.test.num_data == 20 for baseline in (plain, fixed, augerino))
    report = page(replace(record, history=[], samples=None))  # without figures that take a while
    assert "averages over 2 augmentation samples; without an augmentation" in report
    assert "not fair" not in report


@pytest.mark.parametrize(
    ("description", "kind", "names"),
    [
        ("affine:rotation,shift_x", Affine2d, ("rotation", "shift_x")),
        ("correlated:scale_x,scale_y", Correlated, ("scale_x", "scale_y")),
        ("dihedral", FiniteGroup, None),
    ],
)
def test_augmentations(discovered, description, kind, names):
    folder = discovered("a", "--augment", description)
    record = read_run(folder)
    assert isinstance(load_augmentation(folder / "augment.json"), kind)
    assert names is None or tuple(symmetry.name for symmetry in record.symmetries) == names
    assert (record.correlation is not None) == (kind is Correlated)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", "hyper.estimator=stochastic", "--set", "hyper.num_data=10"),
        ("--set", "curvature=diag", "--set", "prior=diagonal"),
        ("--set", "curvature=full", "--set", "hyper.probes=exact"),
        ("--set", "weights.optimizer=sgd", "--set", "hyper.probes=2", "--set", "hyper.num_steps=2"),
    ],
)
def test_ways_to_train(discovered, arguments):
    record = read_run(discovered("a", *arguments))
    name, value = arguments[1].split("=")
    assert flat_settings(record.config)[name] == value
    assert record.evidence.curvature == record.config["curvature"]
    assert any(epoch.evidence is not None for epoch in record.history)


def test_float64_is_kept(discovered):
    types = {}
    for dtype in ("float32", "float64"):
        tensors = load_file(discovered(dtype, "--set", f"dtype={dtype}") / "model.safetensors")
        types[dtype] = {str(tensor.dtype) for name, tensor in tensors.items() if name.startswith("network/")}
    assert types == {"float32": {"torch.float32"}, "float64": {"torch.float64"}}


def test_own_network_and_data_from_the_working_directory(run, undrawn, tmp_path):
    (tmp_path / "own_code.py").write_text(CODE)
    arguments = ("--data", "own_code:data", "--network", "own_code:network", "--num-samples", "2", "--epochs", "2")
    assert run("discover", *arguments, "--out", "a").code == 0
    record = read_run(tmp_path / "a")
    assert [row.shape for row in record.coverage] == [[3, 25], [3], [3, 3], [3]]
    assert record.config["num_images"] == 12
    assert record.test is None, "the function returns no test data"


def test_a_folder_of_class_folders(run, undrawn, tmp_path):
    for number in range(8):
        folder = tmp_path / "photos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    arguments = ("--data", "photos", "--network", "mlp:4", "--num-samples", "2", "--epochs", "2", "--out", "a")
    assert run("discover", *arguments).code == 0
    record = read_run(tmp_path / "a")
    assert set(record.samples.labels) <= {"cat", "dog"}
    assert record.samples.shape[2] == 3


def test_plan_prints_and_does_nothing(run, quick, tmp_path):
    code, out, err = run("discover", *quick, "--estimate", "--out", "a")
    assert (code, err) == (0, "")
    assert all(text in out for text in ("network.1.weight", "kron", "40 × 2", "the whole run", "It fits in memory."))
    assert not (tmp_path / "a").exists()


def test_an_estimate_says_the_memory_before_it_measures_the_time(run, quick, monkeypatch):
    def fail(*_arguments):
        raise CovaryError("no trial")

    monkeypatch.setattr("covary.experiments.resources._probe", fail)
    code, out, err = run("discover", *quick, "--estimate")
    assert (code, err) == (2, "error: no trial\n")
    assert "It fits in memory." in out
    assert "the whole run" not in out


def test_plan_as_json(run, quick, tmp_path):
    code, out, _ = run("discover", *quick, "--estimate", "--json", "--out", "a")
    needs = json.loads(out)
    assert code == 0
    assert needs["num_params"] == 36 * 4 + 4 + 4 * 2 + 2
    assert needs["seconds"] > 0
    assert not (tmp_path / "a").exists()


def test_what_cannot_fit_is_refused_with_numbers(run, quick, tmp_path):
    arguments = ("--num-samples", "10000000", "--out", "a")
    per_copy = 2 * (36 + 4 + 4 + 2) + 4 * 36  # activations with their gradients, image and grid
    needed = 40 * 10_000_000 * per_copy * 4 / 2**30
    assert_one_line_and_code_2(run("discover", *quick, *arguments), f"activations {needed:.1f}", "GiB to spare")
    assert not (tmp_path / "a").exists()
    code, out, _ = run("discover", *quick, *arguments, "--estimate")
    assert code == 0
    assert "It does not fit in memory, and the run would be refused." in out


def test_a_pipe_with_settings_is_refused_at_once(run, quick, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    found = run("discover", *quick, "--config", "pipe.toml")
    assert_one_line_and_code_2(found, "'pipe.toml' cannot be read", "not a regular file")


def test_a_run_that_diverged_ends_with_one_line_and_code_1(run, quick, tmp_path, undrawn):
    diverging = ("--set", "weights.lr=1e5", "--set", "weights.lr_min=1e5", "--set", "weights.max_grad_norm=none")
    code, out, err = run("discover", *quick, *diverging, "--out", "diverged")
    assert code == 1
    assert (out + err).count("Training has diverged") + (out + err).count("The network has collapsed") == 1
    assert "Raise epochs" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith(("error: Training has diverged", "error: The network has collapsed"))
    assert read_run(Path("diverged")).problem == line.removeprefix("error: ")


def test_an_option_that_is_a_setting_says_how_to_set_it(run, quick):
    found = run("discover", *quick, "--decay", "0.5")
    assert_one_line_and_code_2(found, "No such option: --decay", "It is a setting: --set hyper.decay=….")
    found = run("discover", *quick, "--lr", "0.1")
    assert_one_line_and_code_2(found, "--set weights.lr=… or --set hyper.lr=…")
    assert "setting" not in run("compare", "a", "--lr", "0.1")[2]


def test_the_precision_of_weight_steps_is_a_flag(run, quick):
    for flags in (("--precision", "bf16"), ("--set", "weights.precision=bf16")):
        code, out, err = run("discover", *quick, *flags, "--print-config")
        assert code == 0, err
        assert 'precision = "bf16"' in out
    wrong = run("discover", *quick, "--precision", "fp8")
    assert_one_line_and_code_2(wrong, "'weights.precision' to be one of 'full', 'bf16'", "'fp8'")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_missing_is_one_line(run, quick):
    assert_one_line_and_code_2(run("discover", *quick, "--device", "cuda"), "sees none", "device='cpu'")
    assert_one_line_and_code_2(run("discover", *quick, "--device", "gpu"), "'auto', 'cpu', 'cuda'", "got 'gpu'")


def test_a_run_that_knows_nothing_ends_with_one_line_and_code_1(run, quick, tmp_path, undrawn):
    """Black images: outputs cannot depend on them, and the run is kept."""
    images = {f"x_{part}": np.zeros((20, 6, 6), np.uint8) for part in ("train", "test")}
    labels = {f"y_{part}": np.arange(20) % 2 for part in ("train", "test")}
    np.savez(tmp_path / "black.npz", **images, **labels)
    code, _, err = run("discover", *quick, "--data", "black.npz", "--out", "black")
    assert code == 1
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: The network has collapsed")
    assert "Traceback" not in err
    record = read_run(Path("black"))
    assert record.problem == line.removeprefix("error: ")
    assert len(record.history) == 2


def archive_of(tmp_path, **arrays):
    np.savez(tmp_path / "mine.npz", **arrays)
    return "--data", "mine.npz", "--network", "mlp:4", "--num-samples", "4", "--epochs", "2"


@pytest.mark.parametrize(
    ("shape", "augment", "names"),
    [
        ((24, 12), "signal", ["shift", "stretch", "amplitude", "noise"]),
        ((24, 6, 3), "points:rotation_z,jitter", ["rotation_z", "jitter"]),
        ((24, 4, 4, 4), "volume:scale+mirror:mirror_x", ["scale", "mirror_x"]),
        ((24, 6, 3), "mirror", ["mirror_x", "mirror_y", "mirror_z"]),
    ],
)
def test_data_that_are_no_images(shape, augment, names, run, tmp_path, undrawn):
    random, labels = np.random.default_rng(0), np.arange(24) % 2
    x = random.normal(size=shape) + labels.reshape(-1, *[1] * (len(shape) - 1))
    arguments = archive_of(tmp_path, traces=x, kinds=labels)
    code, _, err = run("discover", *arguments, "--keys", "traces,kinds", "--augment", augment, "--out", "a")
    assert code == 0, err
    record = read_run(Path("a"))
    assert [symmetry.name for symmetry in record.symmetries] == names
    assert record.title == "mine: 24 data, mlp:4"
    assert record.config["keys"] == ["traces", "kinds"]


def test_what_does_not_fit_other_data_is_one_line(run, tmp_path):
    arguments = archive_of(tmp_path, x_train=np.zeros((24, 12)), y_train=np.arange(24) % 2)
    for more, words in {
        ("--augment", "signal", "--network", "cnn"): ["Expected images (C, H, W) for the network 'cnn'"],
        ("--augment", "signal", "--symmetrize", "rotate:10"): ["'symmetrize' is of images"],
        ("--augment", "signal+affine"): ["augmentations of one kind of data", "images, signals"],
        ("--augment", "points"): ["expected (N, P, 3)"],
        ("--augment", "signal:wobble"): ["'wobble'"],
        ("--keys", "x_train"): ["two names of arrays"],
        ("--task", "regresion"): ["got 'regresion'. Did you mean 'regression'?"],
        ("--target", "price"): ["'target' names parts of an .csv file", "Leave it out"],
        ("--set", "num_train=None"): ["or None (in a command none)"],
        ("--set", "hyper=1"): ["a HyperConfig, or its settings by name"],
    }.items():
        assert_one_line_and_code_2(run("discover", *arguments, *more), *words)


def check_predictions(run, x, y):
    """`covary predict` of a regression: means of the network, deviations of noise and weights, by names of columns."""
    swapped = [f"{b},{a}" for a, b in x[:5]] + ["5000,10"]
    Path("new.csv").write_text("\n".join(["depth,width", *swapped]))
    code, out, err = run("predict", "plane", "--data", "new.csv", "--json")
    assert code == 0, err
    rows = json.loads(out)
    loaded = load("plane")
    expected = loaded.predict(torch.from_numpy(np.vstack([x[:5], [10, 5000]])).float())[:, 0]
    assert [row["row"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert [row["price_mean"] for row in rows] == pytest.approx(expected.tolist(), rel=1e-4)
    noise = read_run(Path("plane")).likelihood["sigma_noise[0]"]
    spreads = [row["price_std"] for row in rows]
    assert min(spreads) > noise
    assert spreads[-1] > 2 * max(spreads[:-1]), "far from the training data the weights decide"
    code, out, err = run("predict", "plane", "--data", "plane.csv", "--out", "prices.csv")
    assert (code, out) == (0, "The predictions of 120 rows are in prices.csv.\n"), err
    assert Path("prices.csv").read_text().startswith("row,price_mean,price_std\n0,")
    Path("short.csv").write_text("width,price\n1,2\n")
    assert_one_line_and_code_2(
        run("predict", "plane", "--data", "short.csv"), "the columns width, depth", "width, price"
    )
    np.savez("wide.npz", x=np.zeros((2, 5)))
    Path("photos").mkdir()
    Image.fromarray(np.zeros((6, 6), np.uint8)).save("photos/1.png")
    for data, got in (("wide.npz", "got 5."), ("photos", "got data of shape (1, 1, 6, 6)")):
        wrong = run("predict", "plane", "--data", data)
        assert_one_line_and_code_2(wrong, "Expected rows of 2 columns (width, depth), as in training", got)
    Path("other.csv").write_text(Path("plane.csv").read_text() + "\n1,2,3")
    other = run("predict", "plane", "--data", "new.csv", "--train-data", "other.csv")
    assert_one_line_and_code_2(other, "SHA-256 differs", "--train-data")


def test_a_regression_on_a_table(run, tmp_path, undrawn):
    """A noisy plane: the network finds it, in the units of the file."""
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 2)) * [3.0, 100.0] + [10.0, -500.0]
    y = 1000 + 20 * x[:, 0] - 0.3 * x[:, 1] + 5 * random.normal(size=120)
    rows = [f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)]
    (tmp_path / "plane.csv").write_text("\n".join(["width,depth,price", *rows]))
    arguments = ("--data", "plane.csv", "--task", "regression", "--target", "price", "--network", "mlp:8")
    settings = ("--set", "test_share=0.25", "--set", "weights.lr=0.03", "--epochs", "25", "--out", "plane")
    code, out, err = run("discover", *arguments, *settings)
    assert code == 0, err
    assert "rmse" in out
    assert "accuracy" not in out
    assert out.startswith("Noise of the targets: standard deviation"), "what was learned"
    assert "Root mean squared error on the test data" in out.split("This run has no transforms")[0].replace("\n", " ")
    record = read_run(Path("plane"))
    assert record.problem is None
    assert record.test.num_data == 30
    assert record.test.rmse < 0.4 * y.std(), "a constant prediction has the deviation of the targets"
    assert record.likelihood["sigma_noise[0]"] < 0.4 * y.std()
    assert record.symmetries == []
    assert any("width 9." in note or "width 10." in note for note in record.notes)
    assert any("price" in note for note in record.notes)
    loaded = load("plane")
    predicted = loaded.predict(torch.from_numpy(x).float())[:, 0].numpy()
    assert np.sqrt(np.mean((predicted - y) ** 2)) < 0.4 * y.std()
    assert record.target_std == pytest.approx([y.std()], rel=0.2), "of the rows that are not held out"
    assert "without the network" in out
    check_predictions(run, x, y)
    assert_one_line_and_code_2(run("discover", *arguments[:4]), "--target price", "width, depth, price")
    untold = run("discover", *arguments[:2], "--target", "price")
    assert_one_line_and_code_2(untold, "Expected a regression of a .csv", "Add --task regression.")


def test_a_folder_of_several_sizes(run, tmp_path, undrawn):
    random = np.random.default_rng(0)
    for name, side in (("left", 8), ("right", 12)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(0, 255, (side, side + number % 2), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    arguments = ("--data", "photos", "--network", "mlp:4", "--num-samples", "2", "--epochs", "2", "--out", "a")
    assert_one_line_and_code_2(run("discover", *arguments), "expected images of one size", "--size 64")
    code, _, err = run("discover", *arguments, "--size", "8")
    assert code == 0, err
    assert any(
        note.startswith("9 images were resized: the shorter side to 8 pixels") for note in read_run(Path("a")).notes
    )
