"""The study of paper 3: its claims at the smallest scale, and its parts by hand."""

import dataclasses
import json
import math

import pytest
import torch

from covary.records import Study
from covary.reproduce.paper3 import optimizer_bias
from covary.reproduce.paper3.coordinates import determinants, modes, paths, priors
from covary.reproduce.paper3.invariant_evidence import sine, trained
from covary.reproduce.paper3.optimizer_bias import Minima, Minimum, minima
from covary.reproduce.paper3.reparametrization import reparametrization
from covary.reproduce.study import Request

PARTS = {"App. A", "Fig. 2a", "Fig. 2b", "App. E.1", "Table 1", "Table 3", "Fig. 5", "estimates"}
FEW = Minima(("mnist-mini",), 60, 1, 1, 20, num_products=6, batch_size=20)


@pytest.fixture(scope="module")
def study() -> Study:
    return reparametrization(Request("smoke"))


def test_a_study_is_plain_numbers(study):
    assert json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False))["name"] == "reparametrization"
    assert {row["part"] for row in study.rows} == PARTS


def test_what_does_not_need_much_training_holds_at_the_smallest_scale(study):
    held = {claim.sentence: claim.holds for claim in study.claims}
    needs = ("half the step", "grows with the width", "far sharper", "holds the truth", "the largest error")
    assert all(holds for sentence, holds in held.items() if not any(words in sentence for words in needs)), held


def test_naive_and_proper_evidences_of_table_1(study):
    rows = {(row["case"], row["quantity"]): row for row in study.rows if row["part"] == "Table 1"}
    for case in ("Cartesian", "WeightNorm", "polar"):
        total, fit, rest = (rows[case, quantity]["naive"] for quantity in ("log Z", "−L", "Rest"))
        assert total == pytest.approx(fit + rest, abs=1e-9)
    assert rows["polar", "log Z"]["metric-aware"] == pytest.approx(rows["Cartesian", "log Z"]["naive"], abs=1e-8)
    assert rows["WeightNorm", "log Z"]["metric-aware"] is None
    assert len({round(rows[case, "log Z"]["naive"]) for case in ("Cartesian", "WeightNorm", "polar")}) == 3


def test_table_3_quarters_and_quadruples_the_naive_trace(study):
    naive, aware = ([row[key] for row in study.rows if row["part"] == "Table 3"] for key in ("naive", "metric-aware"))
    assert [value / naive[0] for value in naive] == pytest.approx([1, 4, 0.25], rel=1e-3)
    assert [value / aware[0] for value in aware] == pytest.approx([1, 1, 1], rel=1e-3)


def test_the_determinants_of_the_paper():
    found = determinants()
    assert [row["naive"] for row in found.rows] == pytest.approx([8, (2 / 9) ** 3], rel=1e-12)
    assert [row["metric-aware"] for row in found.rows] == pytest.approx([8, 8], rel=1e-12)


def test_the_mode_of_a_gamma_density_moves_by_one():
    (row,) = modes().rows
    assert (row["naive"], row["metric-aware"]) == (pytest.approx(3), pytest.approx(2))


def test_half_the_step_is_half_the_gap():
    found = {steps: paths(steps).rows[0] for steps in (40, 80)}
    assert found[40]["metric-aware"] / found[80]["metric-aware"] == pytest.approx(2, abs=0.2)
    assert found[40]["naive"] / found[80]["naive"] == pytest.approx(1, abs=0.2)  # the control does not shrink


def test_the_kernels_of_two_parametrizations():
    found = priors((32, 512), 4, 0)
    assert all(claim.holds for claim in found.claims), found.claims
    standard = found.series["kernels"]["standard"]
    assert standard[1] > 8 * standard[0]


def test_the_noise_of_the_points_does_not_depend_on_their_place():
    x, y = sine(0)
    residual = (y - x.sin()).flatten()
    assert residual.std() == pytest.approx(0.3, rel=0.15)
    assert abs(torch.corrcoef(torch.stack([x.flatten(), residual]))[0, 1]) < 0.25


def test_training_lowers_the_loss():
    x, y = sine(0)
    before, after = (float((trained((x, y), epochs, 0)(x) - y).detach().square().mean()) for epochs in (0, 100))
    assert after < 0.7 * before


def test_finished_minima_are_not_trained_again(tmp_path, monkeypatch):
    first = minima(FEW, Request(folder=tmp_path))
    monkeypatch.setattr(optimizer_bias, "_train", lambda *arguments: pytest.fail("it was trained again"))
    again = minima(FEW, Request(folder=tmp_path))
    assert again == first
    assert math.isfinite(first.rows[0]["naive"])


@pytest.mark.parametrize(("sgd", "adam", "holds"), [(2.0, 30.0, True), (2.0, 19.0, False), (-2.0, 30.0, False)])
def test_far_sharper_is_ten_times(sgd, adam, holds):
    found = {"a, SGD": [Minimum(sgd, sgd, 0.1, 0.9)], "a, Adam": [Minimum(1.0, adam, 0.1, 0.9)]}
    (claim,) = optimizer_bias._biases(dataclasses.replace(FEW, data=("a",)), found)
    assert claim.holds == holds
