"""`covary geometry`: numbers, picture and errors of a saved run."""

import json

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary import cli

# what torch itself uses when it first takes a derivative along a vector; Python hides it outside of tests
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")


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
def test_bad_input_is_one_line(run, saved, arguments, words):
    assert_one_line_and_code_2(run("geometry", *arguments), *words)


def test_a_run_without_its_network_is_one_line(run, saved):
    (saved / "model.safetensors").unlink()
    assert_one_line_and_code_2(run("geometry", "a"), "model.safetensors", "cannot be read")


def test_a_place_that_cannot_be_a_folder_is_told_before_the_work(run, saved, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cli.geometry, "saved_geometry", lambda *arguments: pytest.fail("worked for nothing"))
    assert_one_line_and_code_2(run("geometry", "a", "--out", "file"), "file")
