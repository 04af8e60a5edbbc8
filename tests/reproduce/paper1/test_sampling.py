"""The study of sampling errors: its exponent by hand, when its claims hold, and a small run."""

import dataclasses
import json

import pytest

from covary.records import Study
from covary.reproduce.paper1.sampling import _claims, _exponent
from reproduce.smoke_studies import sampling_study

# of 16 and 32 samples: outputs, hyper-gradient, its mean over seeds
ERRORS = {
    ("sobol", 16): (0.02, 0.10, 0.08),
    ("sobol", 32): (0.01, 0.05, 0.04),
    ("two sets", 16): (0.03, 0.12, 0.03),
    ("two sets", 32): (0.02, 0.08, 0.01),
    ("random", 16): (0.14, 0.28, 0.20),
    ("random", 32): (0.10, 0.20, 0.14),
}
NAMES = ("outputs", "hyper-gradient", "hyper-gradient, mean")
BEATS = "16 Sobol samples beat 32 independent ones"
LESS_BIAS = "hyper-gradient: 16 samples in two sets have less bias than in one"
ROOT = "outputs: the error of independent samples falls as 1/√S"
FASTER = "outputs: that of Sobol samples falls faster"


@pytest.fixture(scope="module")
def study() -> Study:
    return sampling_study()


def test_a_study_is_plain_numbers(study):
    assert json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False))["name"] == "sampling"


def test_every_size_has_every_sampler(study):
    assert [(row["S"], row["sampler"]) for row in study.rows] == [
        (size, sampler) for size in study.config["sizes"] for sampler in ("sobol", "two sets", "random")
    ]


def test_errors_are_between_0_and_1(study):
    for row in study.rows:
        assert 0 < row["outputs"] < 1
        assert 0 < row["hyper-gradient"] < (1 if row["sampler"] != "two sets" else 2)  # of few data, it scatters


def test_the_conclusion_quotes_the_rows_of_the_defaults(study):
    rows = {(row["sampler"], row["S"]): row for row in study.rows}
    assert f"{rows['sobol', 8]['outputs']:.1%}" in study.series["conclusion"]
    assert f"{rows['two sets', 16]['hyper-gradient']:.1%}" in study.series["conclusion"]


@pytest.mark.parametrize("power", [-0.5, -1.25])
def test_the_exponent_of_a_power(power):
    rows = [{"sampler": "sobol", "S": size, "outputs": 3 * size**power} for size in (1, 2, 4, 16)]
    other = [{"sampler": "random", "S": size, "outputs": 1.0} for size in (1, 2)]
    assert _exponent(rows + other, "sobol", "outputs") == pytest.approx(power)
    assert _exponent(rows + other, "random", "outputs") == pytest.approx(0)


def failed(sampler: str = "", changes: dict[str, float] | None = None, **exponents: float) -> set[str]:
    """The sentences of the claims that do not hold, with other errors of 16 samples of one kind, or exponents."""
    rows = [
        {"sampler": kind, "S": size}
        | dict(zip(NAMES, errors, strict=True))
        | ((changes or {}) if (kind, size) == (sampler, 16) else {})
        for (kind, size), errors in ERRORS.items()
    ]
    fitted = {f"outputs, {kind}": exponent for kind, exponent in ({"random": -0.5, "sobol": -1.0} | exponents).items()}
    return {claim.sentence for claim in _claims(rows, fitted) if not claim.holds}


def test_all_claims_hold_where_sobol_samples_are_better():
    assert failed() == set()


@pytest.mark.parametrize(("name", "most"), [("outputs", 0.10), ("hyper-gradient", 0.20)])
@pytest.mark.parametrize(("share", "holds"), [(0.99, True), (1.0, False), (1.01, False)])
def test_sobol_samples_no_better_than_twice_as_many_independent_ones_fail_their_claim(name, most, share, holds):
    """Less than the error of as many independent ones, which is √2 times as large, is not enough."""
    assert failed("sobol", {name: share * most}) == (set() if holds else {f"{name}: {BEATS}"})


@pytest.mark.parametrize(("bias", "holds"), [(0.079, True), (0.08, False), (0.081, False)])
def test_two_sets_with_as_much_bias_as_one_fail_their_claim(bias, holds):
    assert failed("two sets", {"hyper-gradient, mean": bias}) == (set() if holds else {LESS_BIAS})


@pytest.mark.parametrize(("exponent", "holds"), [(-0.61, False), (-0.59, True), (-0.41, True), (-0.39, False)])
def test_the_exponent_of_independent_samples_holds_within_a_tenth_of_a_half(exponent, holds):
    assert failed(random=exponent) == (set() if holds else {ROOT})


@pytest.mark.parametrize(("exponent", "holds"), [(-0.51, True), (-0.5, False), (-0.49, False)])
def test_sobol_samples_that_fall_no_faster_fail_their_claim(exponent, holds):
    assert failed(sobol=exponent) == (set() if holds else {FASTER})
