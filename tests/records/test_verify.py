"""Every file of a folder against its checksum."""

import dataclasses
import json
from dataclasses import asdict

import pytest

from covary.errors import DataError
from covary.records import FileCheck, Study, read_run, verify, write_run, write_study
from covary.records.checksums import checksums, sealed, sealed_page
from covary.records.files import write_evidence
from report.runs import full_run


@pytest.fixture
def folder(tmp_path):
    """A run with two files, a report, and a geometry with a figure."""
    for name in ("model.safetensors", "augment.json", "geometry.svg"):
        (tmp_path / name).write_bytes(name.encode())
    files = checksums(tmp_path, ("model.safetensors", "augment.json"))
    write_run(dataclasses.replace(full_run(), files=files), tmp_path / "run.json")
    files = checksums(tmp_path, ("model.safetensors", "geometry.svg"))
    study = Study("geometry", "run", "a", {}, {}, [], {}, [], 1.0, files)
    write_study(study, tmp_path / "geometry.json")
    (tmp_path / "report.html").write_text(sealed_page("<html></html>\n", asdict(full_run())))
    return tmp_path


FILES = ("run.json", "model.safetensors", "augment.json", "geometry.json", "geometry.svg", "report.html")


def test_what_was_written_is_right(folder):
    assert verify(folder) == [FileCheck(name, "ok") for name in FILES]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [lambda old: old[: len(old) // 2], lambda old: bytes(len(old)), lambda old: b"{}"])
def test_damage_is_found_where_it_is(folder, name, damage):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    found = {check.name: check.state for check in verify(folder)}
    assert found[name] == "damaged"
    assert {state for other, state in found.items() if other != name} <= {"ok", "not in the record"}
    assert list(found.values()).count("not in the record") == {"run.json": 2, "geometry.json": 1}.get(name, 0)


def test_a_report_and_a_geometry_of_another_run_are_told_apart(folder):
    other = dataclasses.replace(full_run(), title="another")
    (folder / "report.html").write_text(sealed_page("<html></html>\n", asdict(other)))
    files = checksums(folder, ("geometry.svg",)) | {"model.safetensors": "0" * 64}
    write_study(Study("geometry", "run", "a", {}, {}, [], {}, [], 1.0, files), folder / "geometry.json")
    found = {check.name: check.state for check in verify(folder)}
    assert found.pop("report.html") == found.pop("geometry.json") == "of another run"
    assert set(found.values()) == {"ok"}


def test_files_that_are_missing_and_files_of_the_user_are_told_apart(folder):
    (folder / "model.safetensors").unlink()
    (folder / "notes.txt").write_text("mine")
    (folder / ".lock").touch()
    (folder / "more").mkdir()
    found = {check.name: check.state for check in verify(folder)}
    assert (found.pop("model.safetensors"), found.pop("notes.txt")) == ("missing", "not in the record")
    assert set(found.values()) == {"ok"}
    assert len(found) == len(FILES) - 1


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "more/deep"])
def test_a_record_does_not_lead_elsewhere(tmp_path, name):
    content = json.dumps(sealed({"files": {name: ""}}))
    (tmp_path / "run.json").write_text(content)
    assert verify(tmp_path)[-1] == FileCheck(name, "damaged")


@pytest.mark.parametrize("content", ["[]", "3", '{"files": 3}', "{" * 100_000])
def test_what_is_no_record_is_damaged(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    assert verify(tmp_path) == [FileCheck("run.json", "damaged")]


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"without run\.json"):
        verify(tmp_path)


def test_cells_of_a_study_are_checked_by_their_own_checksums(tmp_path):
    write_study(Study("table1", "smoke", "a", {}, {}, [], {}, [], 1.0), tmp_path / "study.json")
    (tmp_path / "cells").mkdir()
    for name in ("good", "bad"):
        (tmp_path / "cells" / f"{name}.json").write_text(json.dumps(sealed({"record": {"accuracy": 0.5}})))
    path = tmp_path / "cells" / "bad.json"
    path.write_text(path.read_text().replace("0.5", "0.6"))
    states = {check.name: check.state for check in verify(tmp_path)}
    assert states == {"study.json": "ok", "cells/bad.json": "damaged", "cells/good.json": "ok"}


def test_a_corrected_evidence_states_its_own_checksum_and_its_weights(folder):
    run = read_run(folder)
    write_evidence(run.evidence, run, folder)
    assert FileCheck("evidence.json", "ok") in verify(folder)
    write_evidence(run.evidence, dataclasses.replace(run, files={"model.safetensors": "0" * 64}), folder)
    assert FileCheck("evidence.json", "of another run") in verify(folder)
    path = folder / "evidence.json"
    path.write_text(path.read_text().replace("-", "", 1))
    assert FileCheck("evidence.json", "damaged") in verify(folder)
