"""The toy study: its likelihood of weighted samples by brute force, when its claims hold, and a small run."""

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from covary.curvature import full
from covary.likelihoods import Categorical
from covary.models import Model
from covary.networks import mlp
from covary.records import Study
from covary.reproduce.paper1.toy import _claims
from covary.reproduce.paper1.toy_models import (
    FULL,
    KFAC,
    PANELS,
    PLAIN,
    POLAR,
    STANDARD,
    TRUE_DEGREES,
    WeightedCategorical,
    rotated_arcs,
    rotated_samples,
)
from oracles.curvature import ggn, loss_of
from reproduce.smoke_studies import toy_study

NUM_SAMPLES = 3
SEEDS = (3, 4, 5)
EVIDENCES = {PLAIN: -60.0, POLAR: -45.0, STANDARD: -70.0, FULL: -40.0, KFAC: -42.0}
NEAR = "polar coordinates are near the learned model"
TIME = "one seed, all panels"


@pytest.fixture
def network(generator) -> nn.Sequential:
    return mlp(2, 4, 2, generator=generator)


@pytest.fixture
def points():
    return rotated_arcs(num_data=10, seed=0, dtype=torch.float64)


def test_samples_are_rotations_up_to_the_true_width(points):
    many = rotated_samples(points, 500, seed=1)
    assert torch.equal(many.y, points.y.repeat_interleave(500))
    torch.testing.assert_close(many.x.norm(dim=1), points.x.norm(dim=1).repeat_interleave(500))
    turned = torch.view_as_complex(many.x.view(10, 500, 2)) / torch.view_as_complex(points.x).unsqueeze(1)
    degrees = turned.angle().rad2deg()
    assert float(degrees.abs().max()) <= 60 + 1e-9
    assert bool((degrees.amax(1) > 59).all())
    assert bool((degrees.amin(1) < -59).all())


def test_weighted_log_likelihood_is_the_mean_over_samples(network, points):
    many = rotated_samples(points, NUM_SAMPLES, seed=2)
    found = WeightedCategorical(NUM_SAMPLES).log_prob(network(many.x), many.y)
    expected = 0.0
    for n, label in enumerate(points.y):
        logits = network(many.x[n * NUM_SAMPLES : (n + 1) * NUM_SAMPLES])
        expected = expected + logits.softmax(1)[:, label].log().mean()
    torch.testing.assert_close(found, torch.as_tensor(expected))


def test_weighted_curvature_is_that_of_data_of_weight_one_in_s(network, points):
    many = rotated_samples(points, NUM_SAMPLES, seed=2)
    found = full(Model(network, WeightedCategorical(NUM_SAMPLES)), tuple(many)).to_dense()
    whole = loss_of("categorical", many.y)
    torch.testing.assert_close(found, ggn(network, many.x, lambda f: whole(f) / NUM_SAMPLES))


def test_weighted_curvature_is_not_that_of_averaged_logits(network, points):
    many = rotated_samples(points, NUM_SAMPLES, seed=2)
    weighted = full(Model(network, WeightedCategorical(NUM_SAMPLES)), tuple(many)).to_dense().detach()
    averaged = full(_MeanOfSamples(network), (many.x.view(10, -1), points.y)).to_dense().detach()
    assert float((weighted - averaged).norm()) > 0.01 * float(weighted.norm())


def test_one_sample_has_the_whole_likelihood(network, points):
    logits = network(points.x)
    epsilon = torch.ones_like(logits)
    one, whole = WeightedCategorical(1), Categorical()
    torch.testing.assert_close(one.log_prob_each(logits, points.y), whole.log_prob_each(logits, points.y))
    torch.testing.assert_close(one.root_product(logits, epsilon), whole.root_product(logits, epsilon))


@pytest.fixture(scope="module")
def study() -> Study:
    return toy_study()


def test_a_study_is_plain_numbers(study):
    assert json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False))["name"] == "toy"


def test_every_seed_has_every_panel(study):
    assert [(row["seed"], row["panel"]) for row in study.rows] == [(seed, p) for seed in (3, 4) for p in PANELS]
    for row in study.rows:
        terms = row["log_likelihood"] + row["log_prior"] + row["log_volume"]
        assert math.isclose(row["log_evidence"], terms, rel_tol=1e-12)
    assert len({row["log_evidence"] for row in study.rows}) == len(study.rows)


def test_rotations_are_learned_where_they_are_to_be(study):
    learned = {line["panel"] for line in study.series["trajectories"]}
    assert learned == {"learned, full", "learned, KFAC"}
    for line in study.series["trajectories"]:
        assert line["degrees"][-1] != line["degrees"][0]


def test_predictions_are_probabilities_of_a_grid(study):
    side = len(study.series["axis"])
    for grid in study.series["grids"].values():
        probability, deviation = torch.tensor(grid["probability"]), torch.tensor(grid["deviation"])
        assert probability.shape == deviation.shape == (side, side)
        assert bool(((probability > 0) & (probability < 1)).all())
        assert bool((deviation > 0).all())
        assert float(probability.std()) > 0


def test_a_network_of_four_epochs_has_not_found_the_rotation(study):
    claims = {claim.sentence: claim.holds for claim in study.claims}
    assert not claims["learned, full: median width"]


def rows(changes: dict[tuple[int, str], dict[str, float]] | None = None) -> list[dict[str, Any]]:
    """Three seeds that found the true width in the order of evidences of the paper, but for some changes."""
    return [
        {"seed": seed, "panel": panel, "degrees": TRUE_DEGREES, "log_evidence": EVIDENCES[panel], "seconds": 12.0}
        | (changes or {}).get((seed, panel), {})
        for seed in SEEDS
        for panel in PANELS
    ]


def failed(changes: dict[tuple[int, str], dict[str, float]] | None = None) -> set[str]:
    """The sentences of the claims that do not hold."""
    return {claim.sentence for claim in _claims(rows(changes)) if not claim.holds}


def order(panel: str) -> str:
    return f"log evidence: {panel} > plain > standard augmentation"


def test_all_claims_hold_for_the_true_width_and_the_order_of_the_paper():
    claims = _claims(rows())
    assert all(claim.holds for claim in claims)
    assert len({claim.sentence for claim in claims}) == 2 * 2 + 2 + 1 + 1  # widths, orders, polar, the time


@pytest.mark.parametrize("panel", [FULL, KFAC])
@pytest.mark.parametrize(("factor", "holds"), [(0.89, False), (0.91, True), (1.09, True), (1.11, False)])
def test_the_median_width_holds_within_10_per_cent(panel, factor, holds):
    wrong = failed({(seed, panel): {"degrees": factor * TRUE_DEGREES} for seed in SEEDS})
    assert wrong == (set() if holds else {f"{panel}: median width"})


@pytest.mark.parametrize("panel", [FULL, KFAC])
@pytest.mark.parametrize(("factor", "holds"), [(0.79, False), (0.81, True), (1.19, True), (1.21, False)])
def test_the_width_of_every_seed_holds_within_20_per_cent(panel, factor, holds):
    wrong = failed({(4, panel): {"degrees": factor * TRUE_DEGREES}})
    assert wrong == (set() if holds else {f"{panel}: width with every seed"})


@pytest.mark.parametrize("panel", [FULL, KFAC])
@pytest.mark.parametrize(("gap", "holds"), [(0.1, True), (0.0, False), (-0.1, False)])
def test_one_seed_that_learns_no_more_than_plain_fails_the_order_of_its_panel(panel, gap, holds):
    wrong = failed({(4, panel): {"log_evidence": EVIDENCES[PLAIN] + gap}})
    assert wrong == (set() if holds else {order(panel)})


@pytest.mark.parametrize(("gap", "holds"), [(0.1, True), (0.0, False), (-0.1, False)])
def test_one_seed_with_plain_no_higher_than_standard_augmentation_fails_both_orders(gap, holds):
    wrong = failed({(4, STANDARD): {"log_evidence": EVIDENCES[PLAIN] - gap}})
    assert wrong == (set() if holds else {order(FULL), order(KFAC)})


def test_evidences_are_compared_seed_by_seed():
    """The minimum of one panel is below the maximum of the other, and yet every seed is in order."""
    changes = {(4, panel): {"log_evidence": EVIDENCES[panel] - 100.0} for panel in PANELS}
    assert failed(changes) == set()
    found = {claim.sentence: claim.found for claim in _claims(rows(changes))}
    assert found[order(FULL)] == "+20.0 and +10.0 nats at least"


@pytest.mark.parametrize(("distance", "holds"), [(19.0, True), (-19.0, True), (20.0, False), (21.0, False)])
def test_polar_coordinates_are_to_be_nearer_than_plain_on_either_side(distance, holds):
    wrong = failed({(seed, POLAR): {"log_evidence": EVIDENCES[FULL] + distance} for seed in SEEDS})
    assert wrong == (set() if holds else {NEAR})


def test_one_far_seed_of_polar_coordinates_does_not_move_the_median():
    assert failed({(4, POLAR): {"log_evidence": -200.0}}) == set()
    assert failed({(seed, POLAR): {"log_evidence": -200.0} for seed in (4, 5)}) == {NEAR}


@pytest.mark.parametrize(("seconds", "holds"), [(12.0, True), (12.1, False)])
def test_the_slowest_seed_has_a_minute_for_all_panels(seconds, holds):
    assert failed({(5, KFAC): {"seconds": seconds}}) == (set() if holds else {TIME})


class _MeanOfSamples(nn.Module):
    """The average of logits over samples side by side."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.num_samples = network, NUM_SAMPLES

    def forward(self, x, index=None, *, seed=0):
        return self.network(x.reshape(-1, 2)).reshape(len(x), NUM_SAMPLES, -1).mean(1)
