"""The toy study: its likelihood of shared copies by brute force, and a small run."""

import dataclasses
import json
import math

import pytest
import torch
from torch import nn

from covary.curvature import full
from covary.data.tasks import rotated_arcs
from covary.likelihoods import Categorical
from covary.networks import mlp
from covary.records import Study
from covary.studies.toy import toy
from covary.studies.toy_models import PANELS, SharedCategorical, copies
from oracles.curvature import ggn, loss_of

NUM_COPIES = 3


@pytest.fixture
def network(generator) -> nn.Sequential:
    return mlp(2, 4, 2, generator=generator)


@pytest.fixture
def points():
    return rotated_arcs(num_data=10, seed=0, dtype=torch.float64)


def test_copies_are_rotations_up_to_the_true_width(points):
    many = copies(points, 500, seed=1)
    assert torch.equal(many.y, points.y.repeat_interleave(500))
    torch.testing.assert_close(many.x.norm(dim=1), points.x.norm(dim=1).repeat_interleave(500))
    turned = torch.view_as_complex(many.x.view(10, 500, 2)) / torch.view_as_complex(points.x).unsqueeze(1)
    degrees = turned.angle().rad2deg()
    assert float(degrees.abs().max()) <= 60 + 1e-9
    assert bool((degrees.amax(1) > 59).all())
    assert bool((degrees.amin(1) < -59).all())


def test_shared_log_likelihood_is_the_mean_over_copies(network, points):
    many = copies(points, NUM_COPIES, seed=2)
    found = SharedCategorical(NUM_COPIES).log_prob(network(many.x), many.y)
    expected = 0.0
    for n, label in enumerate(points.y):
        logits = network(many.x[n * NUM_COPIES : (n + 1) * NUM_COPIES])
        expected = expected + logits.softmax(1)[:, label].log().mean()
    torch.testing.assert_close(found, torch.as_tensor(expected))


def test_shared_curvature_is_that_of_data_of_weight_one_in_s(network, points):
    many = copies(points, NUM_COPIES, seed=2)
    found = full(network, SharedCategorical(NUM_COPIES), tuple(many)).to_dense()
    whole = loss_of("categorical", many.y)
    torch.testing.assert_close(found, ggn(network, many.x, lambda f: whole(f) / NUM_COPIES))


def test_shared_curvature_is_not_that_of_averaged_logits(network, points):
    many = copies(points, NUM_COPIES, seed=2)
    shared = full(network, SharedCategorical(NUM_COPIES), tuple(many)).to_dense().detach()
    averaged = full(_MeanOfCopies(network), Categorical(), (many.x.view(10, -1), points.y)).to_dense().detach()
    assert float((shared - averaged).norm()) > 0.01 * float(shared.norm())


def test_one_copy_holds_the_whole(network, points):
    logits = network(points.x)
    epsilon = torch.ones_like(logits)
    one, whole = SharedCategorical(1), Categorical()
    torch.testing.assert_close(one.log_prob_each(logits, points.y), whole.log_prob_each(logits, points.y))
    torch.testing.assert_close(one.root_product(logits, epsilon), whole.root_product(logits, epsilon))


@pytest.fixture(scope="module")
def study() -> Study:
    told: list[float] = []
    found = toy("smoke", 3, lambda message, done: told.append(done))
    assert told == sorted(told)
    assert told[0] >= 0
    assert told[-1] < 1
    return found


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


class _MeanOfCopies(nn.Module):
    """The average of logits over copies that lie side by side."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.num_samples = network, NUM_COPIES

    def forward(self, x, index=None, *, seed=0):
        return self.network(x.reshape(-1, 2)).reshape(len(x), NUM_COPIES, -1).mean(1)
