"""The study of known symmetries: its settings, its widths, and when its claims hold."""

import math
from dataclasses import replace

import pytest

from covary.records import Baseline, Evidence, RunRecord, Symmetry
from covary.reproduce.paper1 import recover as module
from covary.reproduce.paper1.recover import (
    CIRCLE,
    EXPECTED,
    FIXED,
    LEARNED_SHIFTS,
    SCALES,
    SMALLEST,
    STEPS,
    TRUE_SHIFTS,
    VERSIONS,
    Scale,
    _claims,
    _compared,
    _speed,
    dominant,
    recover,
    settings,
)
from covary.reproduce.study import Options, Request

UNITS = {"shift_x": "half-widths", "shift_y": "half-heights", "rotation": "radians"}
NONE = dict.fromkeys(("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear"), 0.01)
TRUE = {
    "fully rotated": {"rotation": math.pi},
    "partially rotated": {"rotation": math.pi / 2},
    "translated": {"shift_x": 8 / 14, "shift_y": 8 / 14},
    "scaled": {"scale_x": math.log(2), "scale_y": math.log(2)},
    "original": {},
}


def record(version: str, factor: float = 1.0) -> RunRecord:
    """A run that learned the true widths of a version, times a factor."""
    widths = NONE | {name: factor * width for name, width in TRUE[version].items()}
    symmetries = [Symmetry(name, width, UNITS.get(name, "log-scale"), "") for name, width in widths.items()]
    evidence = Evidence(-900.0, -100.0, 0.0, -1000.0, 500, "kron", "exact")
    return RunRecord(version, {}, {}, symmetries, evidence, None, [], [], [], None, [], None, TRUE[version], 100.0)


def trained(log_evidence: float) -> Baseline:
    return Baseline("fixed", [], Evidence(log_evidence, 0.0, 0.0, log_evidence, 500, "kron", "exact"), None, 100.0)


def holding(runs: dict[str, RunRecord], **other: float) -> dict[str, bool]:
    """Whether each claim holds if networks with fixed widths have a log evidence of -1000, except some."""
    names = {"circle": CIRCLE, "learned": LEARNED_SHIFTS}
    evidences = dict.fromkeys((SMALLEST, CIRCLE, TRUE_SHIFTS, LEARNED_SHIFTS), -1000.0)
    evidences |= {names[key]: value for key, value in other.items()}
    fixed = {name: trained(value) for name, value in evidences.items()}
    return {claim.sentence: claim.holds for claim in _claims(runs, fixed)}


def test_all_claims_hold_for_the_true_widths():
    claims = holding({version: record(version) for version in VERSIONS})
    assert all(claims.values())
    assert len(claims) == 4 + 5 + 2 + 1  # generators, amounts, the full rotation, the evidence of shifts


@pytest.mark.parametrize(("factor", "holds"), [(0.84, False), (0.86, True), (1.14, True), (1.16, False)])
def test_amounts_hold_within_15_per_cent(factor, holds):
    claims = holding({version: record(version, factor) for version in VERSIONS})
    amounts = {name: held for name, held in claims.items() if ": amount of " in name}
    assert len(amounts) == 5
    assert set(amounts.values()) == {holds}


def test_a_wrong_generator_fails_its_claim_alone():
    runs = {version: record(version) for version in VERSIONS}
    runs["translated"] = replace(record("partially rotated"), true_widths=TRUE["translated"])
    failed = {name for name, held in holding(runs).items() if not held}
    assert failed == {"translated: right generator", "translated: amount of shift_x", "translated: amount of shift_y"}


@pytest.mark.parametrize(("gain", "holds"), [(9.0, True), (11.0, False)])
def test_the_evidence_is_flat_where_a_full_circle_gains_at_most_a_hundredth(gain, holds):
    claims = holding({version: record(version) for version in VERSIONS}, circle=-1000.0 + gain)
    assert claims["fully rotated: flat beyond"] is holds


@pytest.mark.parametrize(("learned", "holds"), [(-1000.0, True), (-1001.0, False)])
def test_learned_shifts_that_the_evidence_does_not_prefer_fail_their_claim(learned, holds):
    claims = holding({version: record(version) for version in VERSIONS}, learned=learned)
    assert claims["translated: evidence of the learned shifts"] is holds


def test_networks_with_learned_shifts_have_those_of_the_run():
    compared = _compared({version: record(version, 1.3) for version in VERSIONS})
    assert compared.keys() == FIXED.keys()
    assert compared[TRUE_SHIFTS] == {"shift_x": 8 / 14, "shift_y": 8 / 14}
    assert compared[LEARNED_SHIFTS] == {"shift_x": 1.3 * 8 / 14, "shift_y": 1.3 * 8 / 14}


@pytest.mark.parametrize(
    ("version", "fixed", "claims"),
    [
        ("fully rotated", [SMALLEST, CIRCLE], ["right generator", "amount", "flat beyond"]),
        ("partially rotated", [], ["right generator", "amount of rotation"]),
        (
            "translated",
            [TRUE_SHIFTS, LEARNED_SHIFTS],
            ["right generator", "amount of shift_x", "amount of shift_y", "evidence of the learned shifts"],
        ),
        ("scaled", [], ["right generator", "amount of scale_x", "amount of scale_y"]),
        ("original", [], []),
    ],
)
def test_claims_are_made_of_the_versions_that_were_learned(version, fixed, claims):
    runs = {version: record(version)}
    assert list(_compared(runs)) == fixed
    found = _claims(runs, {name: trained(-1000.0) for name in fixed})
    assert [claim.sentence for claim in found] == [f"{version}: {claim}" for claim in claims]


def test_a_slow_version_fails_the_claim_on_time():
    runs = {version: record(version) for version in VERSIONS}
    runs["original"] = replace(runs["original"], seconds=241.0)
    assert not _speed(runs).holds


@pytest.mark.parametrize(
    ("widths", "name"),
    [
        ({"rotation": 1.5, "shift_x": 0.2}, "rotation"),
        ({"rotation": 0.3, "shift_x": 0.2}, "shift_x"),  # a shift moves every point, a rotation those far out
        ({"scale_x": 0.693, "shift_x": 0.2}, "scale_x"),
    ],
)
def test_the_dominant_generator_moves_points_most(widths, name):
    assert dominant(NONE | widths) == name


def test_finished_networks_are_read_again_and_not_trained_again(tmp_path, monkeypatch):
    hyper = {"burn_in": 1, "every": 1, "num_data": 10, "num_samples": 2, "num_steps": 1, "num_prior_steps": 1}
    smaller = STEPS.replace(epochs=2, hyper=hyper, evaluation={"num_samples": 2, "num_error_data": 0})
    monkeypatch.setitem(SCALES, "smoke", Scale("mnist-mini", 60, "mlp:4", 2, smaller))
    done = []
    first = recover(Request("smoke", progress=lambda name, share: done.append(name), folder=tmp_path))
    assert done == [*VERSIONS, *FIXED]
    assert len(list(tmp_path.iterdir())) == len(done)
    monkeypatch.setattr(module, "learn", None)
    monkeypatch.setattr(module, "run_baseline", None)
    assert recover(Request("smoke", folder=tmp_path)) == first
    some = recover(Request("smoke", folder=tmp_path, options=Options(versions=("scaled", "original"))))
    assert some.rows == [row for row in first.rows if row["version"] in ("scaled", "original")]


def test_settings_of_a_version():
    for scale in SCALES:
        chosen = {version: settings(version, Request(scale, 7)) for version in VERSIONS}
        assert [config.symmetrize for config in chosen.values()] == list(VERSIONS.values())
        assert {config.fit.seed for config in chosen.values()} == {7}
        assert {version for version, config in chosen.items() if config.augment == "correlated"} == {"scaled"}
    assert EXPECTED.keys() == VERSIONS.keys() - {"original"}
