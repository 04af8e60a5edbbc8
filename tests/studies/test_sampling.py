"""The study of sampling errors: its error and slope by hand, and a small run."""

import dataclasses
import json

import pytest

from covary.records import Study
from covary.studies.sampling import _slope, sampling


@pytest.fixture(scope="module")
def study() -> Study:
    return sampling("smoke", 0, lambda message, done: None)


def test_a_study_is_plain_numbers(study):
    assert json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False))["name"] == "sampling"


def test_every_size_has_every_sampler(study):
    assert [(row["S"], row["sampler"]) for row in study.rows] == [
        (size, sampler) for size in study.config["sizes"] for sampler in ("sobol", "two sets", "random")
    ]


def test_errors_lie_between_nothing_and_everything(study):
    for row in study.rows:
        assert 0 < row["outputs"] < 1
        assert 0 < row["hyper-gradient"] < (1 if row["sampler"] != "two sets" else 2)  # of few data, it scatters


def test_the_conclusion_quotes_the_rows_of_the_defaults(study):
    rows = {(row["sampler"], row["S"]): row for row in study.rows}
    assert f"{rows['sobol', 8]['outputs']:.1%}" in study.series["conclusion"]
    assert f"{rows['two sets', 16]['hyper-gradient']:.1%}" in study.series["conclusion"]


@pytest.mark.parametrize("power", [-0.5, -1.25])
def test_the_slope_of_a_power_is_its_exponent(power):
    rows = [{"sampler": "sobol", "S": size, "outputs": 3 * size**power} for size in (1, 2, 4, 16)]
    other = [{"sampler": "random", "S": size, "outputs": 1.0} for size in (1, 2)]
    assert _slope(rows + other, "sobol", "outputs") == pytest.approx(power)
    assert _slope(rows + other, "random", "outputs") == pytest.approx(0)
