"""Calibration figures against loops and known values."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covary.errors import DataError, ShapeError
from covary.posterior import auroc, auroc_of_confidence, brier, ece, nll
from oracles import posterior as oracle


@pytest.fixture
def predictions(generator):
    probabilities = (2 * torch.randn(60, 4, generator=generator)).softmax(1)
    return probabilities, torch.randint(0, 4, (60,), generator=generator)


@pytest.mark.parametrize("num_bins", [1, 2, 15, 100])
def test_ece_is_the_loop_over_bins(predictions, num_bins):
    assert ece(*predictions, num_bins) == pytest.approx(oracle.ece(*predictions, num_bins), rel=1e-12)


def test_ece_puts_a_confidence_on_an_edge_into_the_lower_bin():
    # 0.5 belongs to (0, 1/2], with one wrong and one right: apart from 0.75, which is right
    probabilities = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]])
    targets = torch.tensor([0, 1, 0])
    assert ece(probabilities, targets, 2) == pytest.approx(0.25 / 3)


def test_ece_of_certain_and_right_is_zero_and_of_certain_and_wrong_is_one():
    certain, targets = torch.eye(3), torch.arange(3)
    assert ece(certain, targets) == 0
    assert ece(certain, (targets + 1) % 3) == 1


def test_nll_and_brier_are_means_of_their_definitions(predictions):
    probabilities, targets = predictions
    rows = list(zip(probabilities.tolist(), targets.tolist(), strict=True))
    assert nll(*predictions) == pytest.approx(sum(-math.log(p[y]) for p, y in rows) / len(rows))
    squares = [sum((value - (c == y)) ** 2 for c, value in enumerate(p)) for p, y in rows]
    assert brier(*predictions) == pytest.approx(sum(squares) / len(rows))


def test_figures_of_a_uniform_prediction_are_known():
    probabilities, targets = torch.full((8, 4), 0.25), torch.arange(8) % 4
    assert nll(probabilities, targets) == pytest.approx(math.log(4))
    assert brier(probabilities, targets) == pytest.approx(0.75)
    assert ece(probabilities, targets) == pytest.approx(0)


def test_nll_of_an_impossible_target_is_infinite():
    assert nll(torch.eye(2), torch.tensor([1, 1])) == math.inf


def test_figures_are_means():
    probabilities, targets = torch.tensor([[0.7, 0.3], [0.2, 0.8]]), torch.tensor([0, 0])
    twice = probabilities.repeat(2, 1), targets.repeat(2)
    for figure in (nll, brier, ece):
        assert figure(*twice) == pytest.approx(figure(probabilities, targets))


scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@given(scores, scores)
def test_auroc_counts_pairs_with_ties_half(positive, negative):
    ours = auroc(torch.tensor(positive), torch.tensor(negative))
    assert ours == pytest.approx(oracle.auroc(torch.tensor(positive), torch.tensor(negative)), abs=1e-12)


def test_auroc_of_confidence_parts_confident_from_uniform():
    confident, uniform = torch.eye(3), torch.full((5, 3), 1 / 3)
    assert auroc_of_confidence(confident, uniform) == 1
    assert auroc_of_confidence(uniform, confident) == 0
    assert auroc_of_confidence(uniform, uniform) == 0.5


@pytest.mark.parametrize(
    ("probabilities", "targets", "error", "message"),
    [
        (torch.tensor([[2.0, -1.0]]), torch.tensor([0]), DataError, "at least 0, that sum to one"),
        (torch.tensor([[0.7]]), torch.tensor([0]), DataError, "torch.cat"),
        (torch.tensor([[float("nan"), 0.5]]), torch.tensor([0]), DataError, "sum to one"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([2]), DataError, "got 2, out of range"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([0, 1]), ShapeError, "one class per row"),
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), DataError, "at least one datum"),
    ],
)
def test_what_is_not_a_prediction_is_refused(probabilities, targets, error, message):
    for figure in (nll, brier, ece):
        with pytest.raises(error, match=message):
            figure(probabilities, targets)


def test_auroc_refuses_what_has_no_order():
    with pytest.raises(DataError, match="at least one negative"):
        auroc(torch.ones(2), torch.ones(0))
    with pytest.raises(DataError, match="1 of them NaN"):
        auroc(torch.tensor([math.nan]), torch.ones(2))


def test_ece_refuses_no_bins(predictions):
    with pytest.raises(DataError, match="num_bins"):
        ece(*predictions, 0)
