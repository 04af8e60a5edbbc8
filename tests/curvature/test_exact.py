"""Exact blocks: the full GGN against the Hessian of the linearized loss, and its diagonal."""

import pytest
import torch

import covary
from cases import CASES, targets
from covary.curvature import capture, diag, full
from oracles.curvature import ggn, loss_of

LIKELIHOODS = {
    "categorical": (covary.Categorical, 1.0),
    "gaussian": (lambda: covary.Gaussian(0.7), 0.7),
    "bernoulli": (covary.Bernoulli, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_full_is_the_hessian_of_the_linearized_loss(case):
    network, x = CASES[case].make(4)
    y = targets("categorical", 4)
    ours = full(network, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_full_for_every_likelihood(kind):
    network, x = CASES["conv2d"].make(3)
    y = targets(kind, 3)
    build, scale = LIKELIHOODS[kind]
    ours = full(covary.Model(network, build()), (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(network, x, loss_of(kind, y, scale)), rtol=1e-9, atol=1e-12)


def test_full_of_a_temperature():
    network, x = CASES["linear"].make(3)
    y = targets("categorical", 3)
    ours = full(covary.Model(network, covary.Categorical(temperature=1.7)), (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y, 1.7)), rtol=1e-9, atol=1e-12)


def test_full_of_some_weights_is_that_part_of_the_matrix():
    network, x = CASES["conv2d"].make(3)
    y = targets("categorical", 3)
    part = full(covary.Model(network).restricted(["0.weight", "3.bias"]), (x, y)).to_dense()
    oracle = ggn(network, x, loss_of("categorical", y), ["0.weight", "3.bias"])
    torch.testing.assert_close(part, oracle, rtol=1e-9, atol=1e-12)


def test_full_adds_over_unequal_batches_and_ignores_order():
    network, x = CASES["conv2d"].make(5)
    y = targets("categorical", 5)
    likelihood = covary.Categorical()
    whole = full(covary.Model(network, likelihood), (x, y))
    parts = full(covary.Model(network, likelihood), (x[:2], y[:2])).accumulate(
        full(covary.Model(network, likelihood), (x[2:], y[2:]))
    )
    turned = full(covary.Model(network, likelihood), (x.flip(0), y.flip(0)))
    torch.testing.assert_close(parts.to_dense(), whole.to_dense(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(turned.to_dense(), whole.to_dense(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_diag_is_the_diagonal_of_the_full_ggn(case):
    network, x = CASES[case].make(4)
    y = targets("categorical", 4)
    ours = diag(network, (x, y)).diagonal()
    oracle = ggn(network, x, loss_of("categorical", y)).diagonal()
    torch.testing.assert_close(ours, oracle, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["conv2d", "tied embedding", "folded batch", "cross attention"])
def test_diag_does_not_depend_on_how_the_data_are_cut(case, monkeypatch):
    network, x = CASES[case].make(5)
    y = targets("categorical", 5)
    whole = diag(network, (x, y)).diagonal()
    monkeypatch.setattr(capture, "CHUNK_ENTRIES", 1)
    one_by_one = diag(network, (x, y)).diagonal()
    torch.testing.assert_close(one_by_one, whole, rtol=1e-12, atol=1e-14)
