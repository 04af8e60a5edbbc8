"""The corrected evidence beside a record, and comparisons that know their error."""

import json
import os
from dataclasses import replace

import pytest

from covary.errors import DataError
from covary.records import Evidence, RunRecord
from covary.records.files import EVIDENCE, with_corrected, write_evidence
from covary.report import comparability, comparison
from covary.report.tables import undecided

PLAIN = Evidence(-400.0, -80.0, -20.0, -500.0, 1000, "kron", "exact")
BETTER = replace(PLAIN, log_volume=80.0, log_evidence=-400.0, corrected_by="lanczos", standard_error=3.0)


def run(title: str, log_evidence: float, standard_error: float | None = None, method: str = "lanczos") -> RunRecord:
    found = replace(PLAIN, log_evidence=log_evidence)
    if standard_error is not None:
        found = replace(found, corrected_by=method, standard_error=standard_error)
    return RunRecord(title, evidence=found)


def test_it_is_read_back_unless_the_weights_are_others(tmp_path):
    record = RunRecord("digits", evidence=PLAIN, files={"model.safetensors": "a" * 64})
    assert with_corrected(record, tmp_path) is record
    write_evidence(BETTER, record, tmp_path)
    assert with_corrected(record, tmp_path).evidence == BETTER
    retrained = replace(record, files={"model.safetensors": "b" * 64})
    assert with_corrected(retrained, tmp_path).evidence == PLAIN


@pytest.mark.parametrize("damage", ["no json", "[]", "changed", "[" * 100_000])
def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path, damage):
    record = RunRecord("digits", evidence=PLAIN)
    write_evidence(BETTER, record, tmp_path)
    content = json.loads((tmp_path / EVIDENCE).read_text())
    content["evidence"]["log_evidence"] = -1.0
    (tmp_path / EVIDENCE).write_text(json.dumps(content) if damage == "changed" else damage)
    with pytest.raises(DataError, match=r"damaged.*compute it again"):
        with_corrected(record, tmp_path)


def test_a_pipe_in_its_place_is_refused(tmp_path):
    os.mkfifo(tmp_path / EVIDENCE)
    with pytest.raises(DataError, match="not a regular file"):
        with_corrected(RunRecord("digits", evidence=PLAIN), tmp_path)


def test_a_gap_within_the_error_is_undecided():
    close = [run("wide", -400.0, 3.0), run("narrow", -405.0, 4.0), run("none", -450.0, 4.0)]
    assert [row["within_error"] for row in comparison(close)] == [False, True, False]
    assert undecided(close) == [
        "Undecided between 'wide' and 'narrow': 5.0 nats are within the error of ±10.0. More probes lower it."
    ]
    assert undecided([run("wide", -400.0, 0.0, "exact"), run("narrow", -405.0, 0.0, "exact")]) == []
    assert undecided([run("wide", -400.0), run("narrow", -405.0)]) == []


def test_corrections_of_different_methods_and_curvatures_are_compared_and_others_are_not():
    exact, estimated = run("a", -400.0, 0.0, "exact"), run("b", -450.0, 2.0)
    other = replace(estimated, evidence=replace(estimated.evidence, curvature="diag", probes="1"))
    assert comparability([exact, other]) == []
    assert "different curvatures" in comparability([exact, run("c", -450.0)])[0]
    assert comparison([exact, run("c", -450.0)])[0]["rank"] is None
