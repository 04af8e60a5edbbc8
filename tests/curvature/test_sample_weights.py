"""Curvature of an average over samples with unequal weights."""

import pytest
import torch
from torch import nn

import covary
from cases import NUM_OUTPUTS, diagonal_blocks, targets
from covary.augment import Affine2d, Composed, FiniteGroup
from covary.curvature import diag, full, kfac
from covary.curvature.capture import capture
from covary.curvature.jacobian_factors import LookupFactors, OuterFactors
from covary.hypergrad import direct, two_pass
from covary.priors import weights_of
from oracles.curvature import ggn, loss_of

PROBABILITIES = [0.4, 0.05, 0.15]


def averaged(*layers, num_samples=4):
    return covary.Averaged(nn.Sequential(*layers), FiniteGroup("flips", PROBABILITIES), num_samples)


def linear_network():
    torch.manual_seed(0)
    return averaged(nn.Flatten(), nn.Linear(9, 4), nn.Linear(4, NUM_OUTPUTS))


def curved_network(num_samples=4):
    torch.manual_seed(0)
    conv, head = nn.Conv2d(1, 2, 2), nn.Linear(8, NUM_OUTPUTS)
    return averaged(conv, nn.Tanh(), nn.Flatten(), head, num_samples=num_samples)


@pytest.mark.parametrize("num_samples", [3, 4])
def test_full_and_diagonal_are_those_of_the_averaged_jacobian(num_samples):
    network, x, y = curved_network(num_samples), torch.randn(5, 1, 3, 3), targets("categorical", 5)
    names = list(weights_of(network))
    oracle = ggn(network, x, loss_of("categorical", y), names)
    torch.testing.assert_close(full(network, (x, y)).to_dense(), oracle, rtol=1e-9, atol=1e-12)
    ours = diag(network, (x, y)).diagonal()
    torch.testing.assert_close(ours, oracle.diagonal(), rtol=1e-9, atol=1e-12)


def test_kfac_of_a_deep_linear_network_is_exact_under_unequal_weights():
    network, x, y = linear_network(), torch.randn(5, 1, 3, 3), torch.randn(5, NUM_OUTPUTS)
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y))
    names = list(ours.blocks)
    oracle = ggn(network, x, loss_of("gaussian", y, 0.5), names)
    blocks = dict(zip(names, diagonal_blocks(oracle, [ours[n].size for n in names]), strict=True))
    for name, dense in blocks.items():
        torch.testing.assert_close(ours[name].to_dense(), dense, rtol=1e-9, atol=1e-12)
    # The control: the plain mean of the inputs gives another block.
    captured = capture(network, x, dict(weights_of(network)))
    factors = captured.factors["network.1.weight"][0].factors
    plain, weighted = (factors.averaged_inputs(w)[:, 0, 0] for w in (None, captured.sample_weights))
    assert (plain.T @ plain - weighted.T @ weighted).norm() > 0.1 * (weighted.T @ weighted).norm()


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_two_passes_equal_one_graph_in_the_logits_too(curvature):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, NUM_OUTPUTS))
    augment = Composed(FiniteGroup("flips", PROBABILITIES), Affine2d(("rotation",), initial_width=0.3))
    network = covary.Averaged(inner, augment, 8)
    data = (torch.randn(7, 1, 3, 3), targets("categorical", 7))
    likelihood, prior = covary.Categorical(), covary.Prior(network, precision=0.7)
    one = direct(covary.Model(network, likelihood, prior), data, curvature)
    two = two_pass(covary.Model(network, likelihood, prior), covary.as_batches(data, 3), curvature)
    assert {"augment.parts.0.logits", "augment.parts.1.raw_widths"} <= set(one)
    for name, gradient in one.items():
        assert bool(gradient.abs().max() > 1e-4), "the test needs a gradient to see"
        torch.testing.assert_close(two[name], gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_gradient_in_the_logits_is_the_central_difference(curvature):
    network, data = curved_network(), (torch.randn(5, 1, 3, 3), targets("categorical", 5))
    likelihood, prior, logits = covary.Categorical(), covary.Prior(network), network.augment.logits
    gradient = two_pass(covary.Model(network, likelihood, prior), data, curvature)["augment.logits"]
    for i in range(len(logits)):
        ends = []
        for step in (1e-6, -1e-6):
            logits.data[i] += step
            ends.append(
                float(covary.log_evidence(covary.Model(network, likelihood, prior), data, curvature).log_evidence)
            )
            logits.data[i] -= step
        assert float(gradient[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_the_kernel_has_the_determinant_of_the_full_curvature():
    network, data = curved_network(), (torch.randn(5, 1, 3, 3), targets("categorical", 5))
    terms = [covary.log_evidence(network, data, c)
             for c in ("kernel", "full")]  # fmt: skip
    torch.testing.assert_close(terms[0].log_evidence, terms[1].log_evidence, rtol=1e-10, atol=0)


def test_folded_rows_share_the_weights_of_their_datum():
    inputs, weights = torch.randn(6, 3, 2), torch.rand(2, 3).softmax(1)  # N = 2, F = 3, S = 3
    factors = OuterFactors(inputs, lambda a: a[:, :, None, None], lambda g: g, fold=3)
    ours = factors.averaged_inputs(weights)[:, :, 0]
    for n in range(2):
        for f in range(3):
            expected = sum(weights[n, s] * inputs[3 * n + f, s] for s in range(3))
            torch.testing.assert_close(ours[n, f], expected)


def test_lookups_with_weights():
    index, weights = torch.tensor([[[0], [2]], [[1], [1]]]), torch.tensor([[0.3, 0.7], [0.4, 0.6]])
    average = LookupFactors(index, 3, torch.float64).averaged_inputs(weights)[:, 0, 0]
    torch.testing.assert_close(average, torch.tensor([[0.3, 0.0, 0.7], [0.0, 1.0, 0.0]]))
