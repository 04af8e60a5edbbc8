"""The order of runs, and the reasons not to trust it."""

import dataclasses

import pytest

from covary.report import comparability, comparison, comparison_figure
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


@pytest.mark.parametrize("value", [3, [], {}, 10**400, "x" * 20_000])
def test_a_setting_of_any_type_is_named_in_short(value):
    config = full_run().config | {"parametrization": value, "data": value or "other"}
    found = comparability([titled("a", -0.3), titled("b", -0.4, config=config)])
    assert ["parametrizations" in warning for warning in found] == [True, False]
    assert all(len(warning) < 300 for warning in found)


@pytest.mark.parametrize("changes", [{"num_data": 100}, {"curvature": "full"}, {"probes": "1"}])
def test_what_cannot_be_compared_is_not_ranked(changes):
    runs = [titled("worse", -0.4), dataclasses.replace(other_evidence(**changes), title="other"), bare_run()]
    for given in (runs, runs[::-1]):
        rows = comparison(given)
        assert [row["title"] for row in rows] == [run.title for run in given]
        assert [(row["rank"], row["log_bayes_factor"]) for row in rows] == [(None, None)] * 3
        assert sum(row["log_evidence"] is not None for row in rows) == 2
    figure = comparison_figure(runs)
    assert [text.get_text() for text in figure.axes[0].texts] == ["worse", "other"]
    assert "cannot be compared" in figure.axes[0].get_xlabel()


def test_an_incomplete_run_is_ranked_with_a_warning():
    rows = comparison([titled("done", -0.4), titled("begun", -0.3, complete=False)])
    assert [row["rank"] for row in rows] == [1, 2]
