"""Whole runs are measured from the same start, and tests do not count as training time."""

import math

import pytest
import torch

from covary.benchmarks import fit as bench
from covary.benchmarks.figures import fit_figure
from covary.cli.studies import FIT_NAMES
from covary.config import discover_config
from covary.experiments.build import prepared, start_of

SMALL = discover_config("mlp:8").replace(
    num_train=60, num_samples=2, symmetrize="rotate:90", epochs=3, baselines=("fixed",), fixed_widths={"rotation": 1.5}
)


@pytest.fixture(scope="module")
def rows():
    workload = bench.FitWorkload(SMALL, reach=1.25)
    return bench.fit_rows("small", workload, 1, lambda message, done: None)


def test_each_method_has_a_row_with_ratio_results_and_curve(rows):
    assert [row["method"] for row in rows] == ["augerino", "plain", "fixed", "learned"]
    base = rows[0]["seconds"]
    for row in rows:
        assert row["workload"] == "small"
        assert row["ratio"] == pytest.approx(row["seconds"] / base)
        assert 0 <= row["accuracy"] <= 1
        assert math.isfinite(row["nll"])
        assert len(row["curve"]) == 3
        assert [seconds for seconds, _ in row["curve"]] == sorted(seconds for seconds, _ in row["curve"])
        assert row["curve"][-1][0] <= row["seconds"] + 1e-6, "the last epoch ends before the run"
    assert rows[0]["log_evidence"] is None, "Augerino has no evidence"
    assert all(math.isfinite(row["log_evidence"]) for row in rows[1:])
    assert rows[2]["widths"]["rotation"] == pytest.approx(1.5)
    assert [row["reach"] for row in rows] == [None, None, None, 1.25]


def test_the_goal_is_the_accuracy_that_the_first_method_ends_with(rows):
    goal = rows[0]["curve"][-1][1]
    for row in rows:
        reached = [seconds for seconds, accuracy in row["curve"] if accuracy >= goal]
        assert row["seconds_to_goal"] == (reached[0] if reached else None)


def test_all_methods_start_from_the_same_weights():
    task = prepared(SMALL)
    starts = [start_of(method, SMALL, task)[0] for method in ("augerino", "plain", "fixed", "learned")]
    weights = [next(p for p in network.parameters() if p.ndim == 2) for network in starts]
    assert all(torch.equal(weight, weights[0]) for weight in weights)


def test_the_figure_has_a_panel_per_workload_and_a_line_per_method(rows):
    other = [row | {"workload": "other"} for row in rows[:2]]
    figure = fit_figure([*rows, *other])
    assert [panel.get_title() for panel in figure.axes] == ["small", "other"]
    assert [len(panel.get_legend().get_texts()) for panel in figure.axes] == [4, 2]


def test_the_command_knows_every_workload():
    assert tuple(bench.FIT_WORKLOADS) == FIT_NAMES
