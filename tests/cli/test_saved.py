"""Commands on saved runs: `covary report`, `covary compare` and `covary geometry`."""

import csv
import errno
import io
import json
import math
import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file

import covary
from cli.outcomes import assert_one_line_and_code_2
from covary.data import load_images
from covary.records import read_run, write_run
from covary.records.checksums import checksums
from report.runs import bare_run, evidence, full_run

# what torch itself uses when it first takes a derivative along a vector; Python hides it outside of tests
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")


@pytest.fixture
def runs(tmp_path) -> None:
    """Folders `better` and `worse` of runs on the same data, and `elsewhere` of one on other data."""
    other = full_run().config | {"data": "fashion-mnist"}
    for name, fit, config in (
        ("worse", -0.4, full_run().config),
        ("better", -0.3, full_run().config),
        ("elsewhere", -0.1, other),
    ):
        write_run(replace(full_run(), evidence=evidence(fit), config=config), tmp_path / name / "run.json")


def test_report_draws_the_same_page_byte_for_byte(run, quick, tmp_path):
    assert run("discover", *quick, "--out", "a").code == 0
    drawn = (tmp_path / "a" / "report.html").read_bytes()
    assert run("report", "a/run.json", "--out", "new/page.html") == (0, "The report is in new/page.html.\n", "")
    assert (tmp_path / "new" / "page.html").read_bytes() == drawn
    write_run(replace(read_run(tmp_path / "a"), seconds=99.0), tmp_path / "a" / "run.json")
    assert run("report", "a") == (0, "The report is in a/report.html.\n", "")
    assert (tmp_path / "a" / "report.html").read_bytes() != drawn, "it is drawn from the records"


def test_compare_ranks_by_evidence(run, runs):
    code, out, err = run("compare", "worse", "better")
    assert (code, err) == (0, "")
    assert out.index("better") < out.index("worse")
    assert "-500.0" in out
    assert "cannot be compared" not in out


def test_compare_warns_of_different_data(run, runs):
    code, out, _ = run("compare", "better", "elsewhere")
    assert code == 0
    assert "have different data, by the setting data ('fashion-mnist', 'mnist-mini')" in out


def test_compare_as_json(run, runs):
    code, out, err = run("compare", "worse", "better", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert [row["title"].split(":")[0] for row in printed["runs"]] == ["better", "worse"]
    assert printed["runs"][1]["log_bayes_factor"] == pytest.approx(-0.1 * 5000)
    assert printed["warnings"] == []


def test_compare_does_not_rank_runs_on_other_data(run, runs):
    printed = json.loads(run("compare", "worse", "better", "elsewhere", "--json").out)
    assert [row["title"].split(":")[0] for row in printed["runs"]] == ["worse", "better", "elsewhere"]
    assert [(row["rank"], row["log_bayes_factor"]) for row in printed["runs"]] == [(None, None)] * 3
    assert len(printed["warnings"]) == 1
    code, out, err = run("compare", "worse", "elsewhere")
    assert (code, err) == (0, "")
    assert "cannot be compared and are not ranked" in " ".join(out.split())


def test_verify_names_what_is_damaged_and_commands_refuse_it(run, discovered, images):
    folder = discovered("a")
    code, out, err = run("verify", "a")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("run.json", "model.safetensors", "augment.json"))
    model = folder / "model.safetensors"
    kept = model.read_bytes()
    model.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    code, out, err = run("verify", "a", "--json")
    states = {row["name"]: row["state"] for row in json.loads(out)}
    assert (code, states["model.safetensors"], states["augment.json"]) == (2, "damaged", "ok")
    assert err == (
        "error: 'a' is not what was written: model.safetensors (damaged). Restore these files, or run it again.\n"
    )
    for command in (("predict", "a", "--data", str(images)), ("geometry", "a")):
        assert_one_line_and_code_2(run(*command), "model.safetensors' is damaged or of another run")
    model.write_bytes(kept)
    (folder / "run.json").write_text((folder / "run.json").read_text().replace("0.", "1.", 1))
    for command in (("report", "a"), ("compare", "a", "a"), ("predict", "a", "--data", str(images)), ("geometry", "a")):
        assert_one_line_and_code_2(run(*command), "run.json' is damaged")
    assert_one_line_and_code_2(run("discover", "--out", "a", "--data", str(images), "--resume"), "run.json' is damaged")
    assert run("verify", "a").code == 2
    assert_one_line_and_code_2(run("verify", "."), "without run.json and study.json")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_compare_draws(run, runs, tmp_path, kind):
    path = tmp_path / "new" / f"compare.{kind}"
    drawn = []
    for _ in range(2):
        assert run("compare", "worse", "better", "--plot", str(path)).code == 0
        drawn.append(path.read_bytes())
    assert drawn[0] == drawn[1]
    assert kind == "png" or b"1. better" in drawn[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "nothing"), ["nothing", "cannot be read"]),
        (("report",), ["RUN"]),
        (("report", "damaged"), ["run.json is damaged, or no record"]),
        (("report", "foreign"), ["no record of a run"]),
        (("compare", "better"), ["two or more runs", "got 1"]),
        (("compare", "better", "nothing"), ["nothing", "cannot be read"]),
        (("compare", "better", "damaged"), ["run.json is damaged, or no record"]),
        (("compare", "better", "worse", "--plot", "compare.doc"), ["compare.doc", ".svg"]),
    ],
)
def test_bad_input_is_one_line(run, runs, tmp_path, arguments, words):
    for name, text in (("damaged", '{"format": "covary-run", '), ("foreign", '{"a": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    assert_one_line_and_code_2(run(*arguments), *words)


@pytest.fixture
def saved(discovered):
    return discovered("a", "--augment", "none")


def test_it_prints_and_keeps_its_numbers(run, saved):
    code, out, err = run("geometry", "a", "--images", "10")
    assert (code, err) == (0, "")
    assert all(word in out for word in ("Cartesian", "polar", "naive", "metric-aware", "log evidence", "10 images"))
    kept = json.loads((saved / "geometry.json").read_text())
    assert kept["config"]["num_images"] == 10
    assert (saved / "geometry.svg").read_text().startswith("<?xml")


def test_json_is_all_that_is_printed(run, saved, tmp_path):
    code, out, err = run("geometry", "a/run.json", "--seed", "2", "--out", "b", "--json")
    printed = json.loads(out)
    assert (code, err) == (0, "")
    assert [(row["chart"], row["kind"]) for row in printed["rows"]] == [
        (chart, kind) for chart in ("Cartesian", "polar") for kind in ("naive", "metric-aware")
    ]
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"geometry.json", "geometry.svg"}
    assert not (saved / "geometry.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), ["nothing", "cannot be read"]),
        (("a", "--images", "0"), ["--images"]),
        ((), ["RUN"]),
    ],
)
def test_of_geometry_bad_input_is_one_line(run, saved, arguments, words):
    assert_one_line_and_code_2(run("geometry", *arguments), *words)


def test_a_run_without_its_network_is_one_line(run, saved):
    (saved / "model.safetensors").unlink()
    assert_one_line_and_code_2(run("geometry", "a"), "model.safetensors", "cannot be read")


def test_a_place_that_cannot_be_written_is_known_before_the_work(run, saved, images, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "geometry.svg").mkdir(parents=True)
    for work in ("saved_geometry", "predictions"):
        monkeypatch.setattr(f"covary.experiments.{work}", lambda *_, **__: pytest.fail("worked for nothing"))
    monkeypatch.setattr("covary.report.page", lambda *_: pytest.fail("worked for nothing"))
    below, taken = "Expected a folder above", "cannot be read or written"
    for said, *arguments in (
        (below, "geometry", "a", "--out", "file"),
        (below, "geometry", "a", "--out", "file/below"),
        (taken, "geometry", "a", "--out", "taken"),
        (below, "report", "a", "--out", "file/page.html"),
        (taken, "report", "a", "--out", "taken"),
        (below, "predict", "a", "--data", str(images), "--out", "file/classes.csv"),
        (below, "compare", "a", "a", "--plot", "file/compare.svg"),
    ):
        assert_one_line_and_code_2(run(*arguments), arguments[-1], said)


def test_a_full_disk_is_one_line_and_leaves_what_was_there(run, tmp_path, monkeypatch):
    (tmp_path / "kept.svg").write_text("before")

    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_run(bare_run(), tmp_path / "bare" / "run.json")
    monkeypatch.setattr(os, "fsync", fail)
    for arguments in (("compare", "bare", "bare", "--plot", "kept.svg"), ("report", "bare", "--out", "new.html")):
        said = run(*arguments)
        assert_one_line_and_code_2(said, f"'{arguments[-1]}' cannot be", "No space left on device. Make space")
    assert (tmp_path / "kept.svg").read_text() == "before"
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".") or path.suffix == ".html"]


def test_a_report_is_written_through_links_and_devices_that_the_user_names(run, tmp_path):
    write_run(bare_run(), tmp_path / "better" / "run.json")
    (tmp_path / "link.html").symlink_to("target.html")
    assert run("report", "better", "--out", "link.html").code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text().startswith("<!DOCTYPE html>")
    os.mkfifo(tmp_path / "pipe")  # as a device, which a faulty write would replace on this machine
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    assert run("report", "better", "--out", "pipe").code == 0
    reader.join()
    assert got == [(tmp_path / "target.html").read_bytes()]
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "better" / "report.html").symlink_to(tmp_path / "precious")
    assert run("report", "better").code == 0
    assert (tmp_path / "precious").read_text() == "kept", "a link inside a run folder is not followed"


OWN = """
from torch import nn
def network(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[1] * shape[2], outputs))
def without_arguments():
    return network((1, 6, 6), 2)
def of_one(shape):
    return network(shape, 2)
"""


def test_predict_prints_class_probability_and_uncertainty(run, discovered, images):
    discovered("a")
    code, out, err = run("predict", "a", "--data", str(images))
    assert run("predict", "a", "--data", str(images), "--network", "mlp:4") == (code, out, err)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err) == (0, "")
    assert list(rows[0]) == ["image", "class", "probability", "uncertainty"]
    assert [row["image"] for row in rows] == [str(number) for number in range(20)]
    probabilities = covary.load("a").predict_proba(load_images(images).x).double()
    assert [int(row["class"]) for row in rows] == probabilities.argmax(1).tolist()
    assert [float(row["probability"]) for row in rows] == pytest.approx(probabilities.max(1).values.tolist())
    entropies = -(probabilities * probabilities.log()).sum(1)
    assert [float(row["uncertainty"]) for row in rows] == pytest.approx(entropies.tolist())


@pytest.mark.parametrize(
    ("change", "predicted", "measured"),
    [
        (lambda weight: weight.double(), None, "in float64, but the run is in float32"),
        (lambda weight: weight.bfloat16(), "in half precision", "in half precision"),
        (lambda weight: weight * math.nan, "predicts numbers that are not finite for '0'", "finite metric above 0"),
    ],
)
def test_weights_that_somebody_replaced_are_one_line(run, discovered, images, change, predicted, measured):
    place = discovered("a") / "model.safetensors"
    save_file({name: change(tensor) for name, tensor in load_file(place).items()}, place)
    write_run(replace(read_run(Path("a")), files=checksums(Path("a"), [place.name])), Path("a/run.json"))
    found = run("predict", "a", "--data", str(images))
    if predicted is None:
        assert (found.code, found.err) == (0, "")
    else:
        assert_one_line_and_code_2(found, predicted)
    assert_one_line_and_code_2(run("geometry", "a", "--images", "4"), measured)


def test_predict_writes_files_of_images_without_labels(run, discovered, tmp_path):
    discovered("a")
    (tmp_path / "new").mkdir()
    for name in ("one.png", "two.png"):
        Image.fromarray(np.full((6, 6), 9, dtype=np.uint8)).save(tmp_path / "new" / name)
    said = run("predict", "a", "--data", "new", "--num-samples", "3", "--out", "made/classes.json")
    assert said == (0, "The predictions of 2 images are in made/classes.json.\n", "")
    rows = json.loads((tmp_path / "made" / "classes.json").read_text())
    assert [row["image"] for row in rows] == ["one.png", "two.png"]
    assert run("predict", "a", "--data", "new", "--num-samples", "3", "--json").out == json.dumps(rows, indent=2) + "\n"
    assert run("predict", "a", "--data", "new", "--out", "classes.csv").code == 0
    assert (tmp_path / "classes.csv").read_text().count("\n") == 3


def test_predict_resamples_files_to_the_size_of_the_run(run, discovered, tmp_path):
    discovered("a")
    (tmp_path / "new").mkdir()
    for name, shape in {"same.png": (6, 6), "wide.png": (9, 12)}.items():
        Image.fromarray(np.full(shape, 9, dtype=np.uint8)).save(tmp_path / "new" / name)
    same, wide = json.loads(run("predict", "a", "--data", "new", "--json").out)
    assert (same["image"], wide["image"]) == ("same.png", "wide.png")
    assert wide["class"] == same["class"]  # one gray image is as another
    assert wide["probability"] == pytest.approx(same["probability"], rel=0.2)


def test_predict_with_a_network_of_the_users_own(run, discovered, images, tmp_path):
    (tmp_path / "own_network.py").write_text(OWN)
    discovered("a", "--network", "own_network:network")
    refused = run("predict", "a", "--data", str(images))
    assert_one_line_and_code_2(refused, "Pass `--network own_network:network`")
    assert "covary.load" not in refused.err
    saved_in_python = replace(read_run(Path("a")), class_names=[])
    for record in (read_run(Path("a")), saved_in_python):
        write_run(record, Path("a/run.json"))
        for name in ("network", "without_arguments"):
            code, out, err = run("predict", "a", "--data", str(images), "--network", f"own_network:{name}")
            assert code == 0, err
            assert out.count("\n") == 21
        wrong = run("predict", "a", "--data", str(images), "--network", "own_network:of_one")
        assert_one_line_and_code_2(wrong, "own_network:of_one cannot be called", "or one without arguments")


@pytest.mark.parametrize("command", [("report", "a"), ("predict", "a", "--data", "mnist-mini")])
def test_an_unfinished_run_is_to_be_resumed(run, tmp_path, command):
    (tmp_path / "a" / "checkpoints" / "learn").mkdir(parents=True)
    expected = "a holds an unfinished run. Continue it with the same command and --resume."
    assert_one_line_and_code_2(run(*command), expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "classes.xls"), ["'classes.xls'", ".csv or .json"]),
        (("--data", "mnist-mini"), ["shape (N, 1, 6, 6)", ", 1, 28, 28)", "Pass images"]),
        (("--data", "nowhere"), ["nowhere"]),
        (("--data", "new.csv"), ["predicts images of 6×6 pixels, got the table 'new.csv'", "folder of images"]),
        (("--num-samples", "0"), ["--num-samples"]),
        (("--num-samples", str(10**12)), ["augmentation samples", "GiB", "--num-samples"]),
        (("--num-samples", str(10**30)), ["augmentation samples", "GiB", "--num-samples"]),
    ],
)
def test_of_predict_bad_input_is_one_line(run, discovered, images, arguments, words):
    discovered("a")
    assert_one_line_and_code_2(run("predict", "a", "--data", str(images), *arguments), *words)
