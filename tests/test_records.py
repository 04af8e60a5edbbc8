"""Records to and from JSON: what was written is read, what is damaged is refused in one line."""

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covary._files import write_text
from covary.errors import DataError
from covary.records import Claim, Evidence, RunRecord, Study, read_run, write_run, write_study
from covary.records.checksums import sealed
from report.runs import bare_run, full_run

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")))
NAMES = st.text(st.characters(categories=("L", "N", "P", "S")))
EVIDENCES = st.builds(Evidence, FINITE, FINITE, FINITE, FINITE, st.integers(1, 10**9), WORDS, WORDS, st.none() | FINITE)
SETTINGS = st.dictionaries(NAMES, st.none() | st.booleans() | st.integers() | FINITE | WORDS | st.lists(FINITE))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_run(full_run(), tmp_path / "run.json")
    return tmp_path / "run.json"


def damaged(path: Path, change) -> Path:
    """The file after a change of its parsed content, which is changed in place; its checksum is right again."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(sealed(content)))
    return path


def message(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_run(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    return str(caught.value)


@pytest.mark.parametrize("make", [full_run, bare_run])
def test_round_trip(tmp_path, make):
    write_run(make(), tmp_path / "run.json")
    assert read_run(tmp_path / "run.json") == make()
    assert read_run(tmp_path) == make(), "a folder stands for the run.json in it"


@given(evidence=st.none() | EVIDENCES, config=SETTINGS, notes=st.lists(WORDS), seconds=FINITE)
def test_round_trip_of_any_values(tmp_path_factory, evidence, config, notes, seconds):
    run = dataclasses.replace(bare_run(), evidence=evidence, config=config, notes=notes, seconds=seconds)
    path = tmp_path_factory.mktemp("run") / "run.json"
    write_run(run, path)
    assert read_run(path) == run


def test_whole_numbers_become_floats(path):
    seconds = read_run(damaged(path, lambda run: run.update(seconds=3))).seconds
    assert seconds == 3.0
    assert isinstance(seconds, float)


def test_the_largest_number_is_a_number(path):
    largest = sys.float_info.max
    assert read_run(damaged(path, lambda run: run.update(seconds=largest))).seconds == largest


OPTIONAL = (
    "complete",
    "notes",
    "pruned",
    "model",
    "timings",
    "verdicts",
    "target_std",
    "predicted_noise",
    "input_shape",
    "feature_names",
)
REQUIRED = [f.name for f in dataclasses.fields(RunRecord) if f.name not in OPTIONAL]


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_field(path, name):
    assert f"lacks the field '{name}'" in message(damaged(path, lambda run: run.pop(name)))


@pytest.mark.parametrize("name", OPTIONAL)
def test_field_with_a_default_may_be_missing(path, name):
    assert read_run(damaged(path, lambda run: run.pop(name))).complete


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda run: run.update(title=3), ".title must be str, got 3"),
        (lambda run: run.update(seconds="3"), ".seconds must be float, got '3'"),
        (lambda run: run.update(seconds=True), ".seconds must be float, got True"),
        (lambda run: run.update(seconds=10**400), ".seconds must be float, got 1000"),
        (lambda run: run.update(complete=1), ".complete must be bool"),
        (lambda run: run["symmetries"][0].update(interval=[0.1]), "two ends of the interval of"),
        (lambda run: run["evidence"].update(mode_distance=[0.1]), ".evidence.mode_distance must be float"),
        (lambda run: run.update(history={}), ".history must be list"),
        (lambda run: run["history"][7].update(epoch=1.5), ".history[7].epoch must be int, got 1.5"),
        (lambda run: run["history"][7]["widths"].update(shear=None), ".history[7].widths.shear must be float"),
        (lambda run: run["evidence"].pop("log_prior"), ".evidence lacks the field 'log_prior'"),
        (lambda run: run["evidence"].update(num_data=0), ".evidence.num_data must be at least 1, got 0"),
        (lambda run: run["baselines"][0]["evidence"].update(num_data=0), ".baselines[0].evidence.num_data must be at"),
        (
            lambda run: run["symmetries"][1].update(width=-1e5),
            ".symmetries[1].width must be at least 0, got -100000.0",
        ),
        (lambda run: run["symmetries"].append("rotation"), ".symmetries[6] must be Symmetry"),
        (lambda run: run["layers"].append({}), ".layers[4] lacks the field 'name'"),
        (
            lambda run: run["layers"][1]["paths"][0].update(inactive=0),
            ".layers[1].paths[0].inactive must be bool, got 0",
        ),
        (lambda run: run["pruned"].update(removed="conv"), ".pruned.removed must be list"),
        (lambda run: run.update(color="red"), "unknown field 'color'"),
        (lambda run: run["test"].update({"f1\n": 1}), "name 'f1\\n'"),
        (lambda run: run.update(version=1), "format version 1"),
        (lambda run: run.pop("version"), "format version None"),
        (lambda run: run.update(format="other"), "is no record of a run"),
        (lambda run: run.update(title="\x00"), ".title holds a control character"),
        (lambda run: run["notes"].append("\ud800"), ".notes[1] holds a control character"),
        (lambda run: run["samples"].update(pixels=run["samples"]["pixels"][:-8]), "bytes of gray or color pixels"),
        (lambda run: run["samples"].update(pixels="not base64!"), "is no base64"),
        (lambda run: run["samples"].update(shape=[4, -7, 1, -28, 28]), "in the shape [4, -7, 1, -28, 28]"),
        (lambda run: run["samples"].update(shape=[2, 7, 2, 28, 28]), "in the shape [2, 7, 2, 28, 28]"),
        (lambda run: run["samples"]["labels"].pop(), "a label per image"),
        (lambda run: run["samples"]["matrices"][0].pop(), "nine numbers per matrix"),
        (lambda run: run["correlation"].pop(), "a row and a column for each of 6 symmetries"),
    ],
)
def test_damage(path, change, expected):
    assert expected in message(damaged(path, change))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["seconds", "config"])
def test_number_that_is_not_finite(path, field, number):
    damaged(path, lambda run: run.update({field: "HERE" if field == "seconds" else {"rate": "HERE"}}))
    path.write_text(path.read_text().replace('"HERE"', number))
    assert "is not finite" in message(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is damaged, or no record"),
        (b"{", "is damaged, or no record"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "is damaged, or no record"),
        (b"[1]", "is no record of a run"),
        (b"null", "is no record of a run"),
        (b"[" * 100_000, "is damaged, or no record"),
        (b"[" * 100_000 + b"]" * 100_000, "is damaged, or no record"),
    ],
)
def test_another_kind_of_file(path, content, expected):
    path.write_bytes(content)
    assert expected in message(path)


def test_deep_nesting_of_a_setting(path):
    nested: list = []
    for _ in range(30):
        nested = [nested]
    assert "nested too deeply" in message(damaged(path, lambda run: run.update(config={"deep": nested})))


def test_absent_file(tmp_path):
    assert "cannot be read: No such file" in message(tmp_path)
    assert "cannot be read: No such file" in message(tmp_path / "nothing.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_refused_value_leaves_the_old_file(path, value):
    before = path.read_bytes()
    with pytest.raises(DataError, match="cannot be written"):
        write_run(dataclasses.replace(full_run(), config={"rate": value}), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_while_writing_leaves_the_old_file_alone(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError("the disk is full")

    path = tmp_path / "run.json"
    write_text(path, "old")
    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
        with pytest.raises(OSError, match="full"):
            write_text(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


def test_writing_makes_its_folder(tmp_path):
    write_text(tmp_path / "a" / "b" / "file.txt", "± ◆\n")
    assert (tmp_path / "a" / "b" / "file.txt").read_text(encoding="utf-8") == "± ◆\n"


def study(**changes) -> Study:
    return dataclasses.replace(
        Study(
            name="toy",
            scale="smoke",
            title="a question",
            config={"epochs": 3},
            versions={"covary": "0"},
            rows=[{"seed": 0, "width": 1.5, "note": None}],
            series={"grid": [[0.0, 1.0]]},
            claims=[Claim("it holds", "> 1", "2", True)],
            seconds=1.0,
        ),
        **changes,
    )


def test_a_study_is_written_whole(tmp_path):
    write_study(study(), tmp_path / "deep" / "study.json")
    content = json.loads((tmp_path / "deep" / "study.json").read_text())
    assert content["format"] == "covary-study"
    assert content["rows"] == [{"seed": 0, "width": 1.5, "note": None}]
    assert content["claims"] == [{"sentence": "it holds", "expected": "> 1", "found": "2", "holds": True}]


def test_a_study_with_a_number_that_is_not_finite_is_refused(tmp_path):
    with pytest.raises(DataError, match="JSON compliant"):
        write_study(study(rows=[{"width": float("nan")}]), tmp_path / "study.json")
    assert list(tmp_path.iterdir()) == []


def test_an_evidence_is_printed_in_a_line_of_its_terms_per_datum_too():
    """Earlier it was the representation of a dataclass."""
    evidence = Evidence(-1040.0, -9.0, 4.0, -1045.0, 20, "kron", "exact")
    assert str(evidence) == (
        "log evidence -1,045.0 nats of 20 data (log-likelihood -1,040.0, log-prior -9.0, log-volume 4.0), "
        "-52.2500 per datum"
    )
