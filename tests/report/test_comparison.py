"""The order of runs, and the reasons not to trust it."""

import dataclasses

import pytest

from covary.report import comparability, comparison
from report.runs import bare_run, evidence, full_run


def titled(title: str, fit: float, **changes):
    return dataclasses.replace(full_run(), title=title, evidence=evidence(fit), **changes)


def other_evidence(**changes):
    return dataclasses.replace(full_run(), evidence=dataclasses.replace(evidence(-0.4), **changes))


def test_rows_are_ranked_with_their_bayes_factors():
    rows = comparison([titled("worse", -0.4), bare_run(), titled("better", -0.3)])
    assert [row["title"] for row in rows] == ["better", "worse", "Nothing yet"]
    assert [row["rank"] for row in rows] == [1, 2, None]
    assert [row["log_bayes_factor"] for row in rows] == [0.0, pytest.approx(-0.1 * 5000), None]
    first = rows[0]
    assert first["log_evidence"] == first["log_likelihood"] + first["log_prior"] + first["log_volume"]
    assert comparison([]) == []


def test_comparable_runs_give_no_warning():
    assert comparability([titled("a", -0.3), titled("b", -0.4)]) == []
    cartesian = full_run().config | {"parametrization": "Cartesian"}
    assert comparability([titled("a", -0.3), titled("b", -0.4, config=cartesian)]) == []


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda: other_evidence(num_data=100), "numbers of data (100, 5000)"),
        (lambda: other_evidence(curvature="full"), "different curvatures (full, kron)"),
        (lambda: other_evidence(probes="1"), "different probes (1, exact)"),
        (lambda: titled("b", -0.4, config={"data": "mnist"}), "by the setting data ('mnist', 'mnist-mini')"),
        (
            lambda: titled("b", -0.4, config=full_run().config | {"parametrization": "WeightNorm of 0.weight"}),
            "in different parametrizations (Cartesian, WeightNorm of 0.weight): their evidences cannot be compared",
        ),
        (lambda: titled("b", -0.4, complete=False), "'b' is incomplete"),
        (bare_run, "has no evidence"),
    ],
)
def test_a_difference_is_named(other, expected):
    assert any(expected in warning for warning in comparability([titled("a", -0.3), other()]))
