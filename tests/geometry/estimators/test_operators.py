"""Products with the Hessian and the Gauss–Newton matrix against the matrices themselves, by brute force."""

import pytest
import torch
from torch import nn
from torch.func import hessian

import covary
from cases import CASES, targets
from covary.batches import as_batches
from covary.errors import NumericalError, UnsupportedLayerError
from covary.geometry import MatrixFree, gauss_newton, loss_hessian
from covary.geometry.estimators.operators import JacobianRoot
from oracles.curvature import flat_function, ggn, loss_of

LIKELIHOODS = {
    "categorical": covary.Categorical(0.7),
    "gaussian": covary.Gaussian(0.6),
    "bernoulli": covary.Bernoulli(),
}
SCALES = {"categorical": 0.7, "gaussian": 0.6, "bernoulli": 1.0}


def brute_force_hessian(network, x, loss, names=None):
    function, theta = flat_function(network, x, names)
    return hessian(lambda step: loss(function(theta + step)))(torch.zeros_like(theta))


@pytest.mark.parametrize("kind", LIKELIHOODS)
@pytest.mark.parametrize(
    "case",
    ["inplace relu", "conv2d grouped", "residual, tied module", "tied embedding", "unused layers"],
)
def test_products_are_those_of_the_dense_matrices(case, kind):
    network, x = CASES[case].make(5)
    y = targets(kind, 5)
    loss = loss_of(kind, y, SCALES[kind])
    names = list(covary.priors.weights_of(network))
    for make, oracle in ((loss_hessian, brute_force_hessian), (gauss_newton, ggn)):
        ours = make(covary.Model(network, LIKELIHOODS[kind]), as_batches((x, y), 2)).to_dense()
        torch.testing.assert_close(ours, oracle(network, x, loss, names), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_the_root_of_the_gauss_newton_matrix(kind, generator):
    """vᵀBᵀBw is vᵀHw by brute force, and Bᵀ is the transpose of B, over any batches."""
    network, x = CASES["conv2d grouped"].make(5)
    y = targets(kind, 5)
    names = list(covary.priors.weights_of(network))
    expected = ggn(network, x, loss_of(kind, y, SCALES[kind]), names)
    root = JacobianRoot(covary.Model(network, LIKELIHOODS[kind]), as_batches((x, y), 2))
    v = torch.randn(3, len(expected), generator=generator)
    pushed = root.push(v)
    torch.testing.assert_close(pushed @ pushed.T, v @ expected @ v.T, rtol=1e-9, atol=1e-10)
    rows = torch.randn(2, pushed.shape[1], generator=generator)
    torch.testing.assert_close(root.pull(rows) @ v.T, rows @ pushed.T, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(pushed[:, :1] @ pushed[:, :1].T, v @ expected @ v.T)  # one row of B is not all


def test_attention_against_differences_of_gradients():
    """By central differences: torch.func.hessian of this layer is not even symmetric, in torch 2.13."""
    network, x = CASES["encoder layer"].make(3)
    y = targets("categorical", 3)
    ours = loss_hessian(network, (x, y)).to_dense()
    function, theta = flat_function(network, x)
    loss = loss_of("categorical", y)

    def gradient(point):
        point = point.detach().requires_grad_()
        return torch.autograd.grad(loss(function(point)), point)[0]

    steps = 1e-5 * torch.eye(len(theta))[::7]
    expected = torch.stack([(gradient(theta + step) - gradient(theta - step)) / 2e-5 for step in steps])
    torch.testing.assert_close(ours[::7], expected, rtol=1e-6, atol=1e-7)  # the error of differences


def test_some_of_the_weights():
    network, x = CASES["linear"].make(5)
    y = targets("categorical", 5)
    names = list(covary.priors.weights_of(network))[:2]
    loss = loss_of("categorical", y)
    ours = loss_hessian(covary.Model(network).restricted(names), (x, y)).to_dense()
    torch.testing.assert_close(ours, brute_force_hessian(network, x, loss, names), rtol=1e-9, atol=1e-11)


def test_an_averaged_network_keeps_its_noise_in_any_batch(generator):
    inner = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
    network = covary.Averaged(inner, covary.augment.Rotation2d(initial_width=0.7), 3)
    x, y = torch.randn(6, 2, generator=generator), torch.arange(6) % 3
    with torch.no_grad():
        expected = covary.curvature.full(network, (x, y), seed=4).to_dense()
    for batch_size in (1, 4, 6):
        found = gauss_newton(network, as_batches((x, y), batch_size), seed=4)
        torch.testing.assert_close(found.to_dense(), expected, rtol=1e-10, atol=1e-12)
    other = gauss_newton(network, (x, y), seed=5).to_dense()
    assert (other - expected).norm() > 1e-3 * expected.norm()


def test_the_network_does_not_change():
    network, x = CASES["linear"].make(4)
    gauss_newton(network, (x, targets("categorical", 4))).to_dense()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_metric_gives_the_eigenvalues_of_the_operator(generator):
    root = torch.randn(6, 6, generator=generator)
    matrix, metric = root + root.T, 0.1 + torch.rand(6, generator=generator)
    under = MatrixFree(lambda vectors: vectors @ matrix, 6).under(metric).to_dense()
    expected = torch.linalg.eigvals(torch.diag(1 / metric) @ matrix).real.sort().values
    torch.testing.assert_close(torch.linalg.eigvalsh(under), expected)


def test_a_network_whose_data_see_each_other_is_refused():
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    data = (torch.randn(5, 4), targets("categorical", 5))
    with pytest.raises(UnsupportedLayerError, match="network.eval()"):
        loss_hessian(network, data)
    assert loss_hessian(network.eval(), data).size == 20 + 8 + 15


def test_a_product_that_is_not_finite_is_an_error():
    with pytest.raises(NumericalError, match="float64"):
        MatrixFree(lambda vectors: vectors / 0, 2)(torch.ones(1, 2))
