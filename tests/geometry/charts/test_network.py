"""Charts of whole networks, and networks in other coordinates against dense derivatives there."""

import pytest
import torch
from torch import nn
from torch.func import jacfwd, jacrev

import covary
from chart_cases import normal
from covary import Averaged, geometry
from covary.augment import Rotation2d
from covary.errors import ChartError, ShapeError
from covary.geometry import (
    CARTESIAN,
    InChart,
    flat_outputs,
    flatten,
    logarithm,
    network_chart,
    polar_of,
    scaling,
    side_by_side,
    unflatten,
)
from covary.networks import mlp


@pytest.fixture
def network():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for seed, parameter in enumerate(net.parameters()):
        parameter.data = normal(seed, *parameter.shape)
    return net


def test_each_parameter_has_its_own_chart(network):
    weights = dict(network.named_parameters())
    chart = network_chart(weights, {"0.weight": polar_of, "*.bias": scaling(2.0)})
    theta = flatten(weights).detach()
    chunks = unflatten(chart.forward(theta), weights)
    expected = polar_of(network[0].weight).forward(network[0].weight.flatten()).view(4, 3)
    torch.testing.assert_close(chunks["0.weight"], expected)
    torch.testing.assert_close(chunks["0.bias"], 2 * network[0].bias)
    torch.testing.assert_close(chunks["2.weight"], network[2].weight)
    torch.testing.assert_close(chart.inverse(chart.forward(theta)), theta)


def test_the_network_computes_the_same_in_every_chart(network):
    weights = dict(network.named_parameters())
    chart = network_chart(weights, {"*.weight": polar_of})
    psi, x = chart.forward(flatten(weights)), normal(9, 5, 3)
    outputs = torch.func.functional_call(network, unflatten(chart.inverse(psi), weights), (x,))
    torch.testing.assert_close(outputs, network(x))
    assert not torch.allclose(torch.func.functional_call(network, unflatten(psi, weights), (x,)), network(x))


def test_a_large_network_needs_no_jacobian():
    weights = {"weight": normal(0, 400, 500), "bias": normal(1, 400)}  # J would take 320 GB
    chart = network_chart(weights, {"weight": polar_of, "bias": scaling(3.0)})
    theta, direction = flatten(weights), normal(2, 200_400)
    psi, pushed = chart.forward(theta), chart.push(theta, direction)
    torch.testing.assert_close(chart.inverted().push(psi, pushed), direction)
    covector = normal(3, 200_400)
    torch.testing.assert_close(chart.pull(theta, covector) @ direction, covector @ pushed)
    assert torch.isfinite(chart.log_det(theta))


def test_variances_beside_means():
    """A mean-field Gaussian (paper 3, Example 1): means as they are, variances by their logarithm."""
    chart = side_by_side([CARTESIAN, logarithm()], [2, 2])
    theta = torch.tensor([-1.0, 2.0, 0.5, 4.0])
    torch.testing.assert_close(chart.forward(theta), torch.cat([theta[:2], theta[2:].log()]))
    with pytest.raises(ChartError, match="above 0"):
        chart.forward(-theta)


def test_bad_arguments_are_refused(network):
    weights = dict(network.named_parameters())
    with pytest.raises(ChartError, match="matches no parameter"):
        network_chart(weights, {"1.weight": CARTESIAN})
    with pytest.raises(ChartError, match="one size per chart"):
        side_by_side([CARTESIAN], [1, 2])
    with pytest.raises(ShapeError, match="26 coordinates"):
        network_chart(weights, {"0.weight": polar_of}).forward(torch.ones(3))


def test_flat_and_back():
    weights = {"a": normal(0, 2, 3), "b": normal(1, 4)}
    theta = flatten(weights)
    assert torch.equal(theta, torch.cat([weights["a"].reshape(-1), weights["b"]]))
    back = unflatten(theta, weights)
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    with pytest.raises(ShapeError, match="10 entries"):
        unflatten(theta[1:], weights)


def test_outputs_are_those_of_the_network_with_these_weights():
    network, x = nn.Linear(3, 2), normal(2, 5, 3)
    theta = normal(3, 8)
    expected = x @ theta[:6].view(2, 3).T + theta[6:]
    torch.testing.assert_close(flat_outputs(network, x)(theta), expected)


def test_an_averaged_network_keeps_its_noise():
    network, x = Averaged(nn.Linear(2, 2), Rotation2d(), num_samples=3), normal(4, 5, 2)
    index = torch.arange(5) + 7
    theta = torch.cat([p.flatten() for p in network.network.parameters()])
    found = flat_outputs(network, x, index=index, seed=1)(theta)
    torch.testing.assert_close(found, network(x, index, seed=1))
    assert not torch.allclose(found, network(x))


def averaged(num_samples: int):
    network = mlp(16, 3, 2, generator=torch.Generator().manual_seed(0))
    augment = covary.augment.Affine2d(initial_width=0.2)
    return covary.Averaged(network, augment, num_samples) if num_samples else network


def in_polar(network):
    weights = covary.Prior(network).weights(network)
    return InChart(network, weights, geometry.network_chart(weights, {"*.weight": geometry.polar_of}))


@pytest.mark.parametrize("num_samples", [0, 3])
def test_the_function_is_the_network(num_samples):
    network = averaged(num_samples)
    charted, x = in_polar(network), torch.randn(4, 1, 4, 4)
    arguments = {"index": torch.arange(3, 7), "seed": 5} if num_samples else {}
    torch.testing.assert_close(charted(x, **arguments), network(x, **arguments))
    assert isinstance(charted, covary._types.SampleAveraging) == bool(num_samples)


@pytest.mark.parametrize("make", [geometry.loss_hessian, geometry.gauss_newton])
def test_products_are_those_of_the_chart(make):
    network = averaged(0)
    charted, x, y = in_polar(network), torch.randn(6, 1, 4, 4), torch.arange(6) % 2
    likelihood, psi = covary.Categorical(), charted.psi.detach()

    def outputs(psi):
        return torch.func.functional_call(charted, {"psi": psi}, (x,))

    if make is geometry.loss_hessian:
        expected = jacfwd(jacrev(lambda psi: -likelihood.log_prob(outputs(psi), y)))(psi)
    else:
        jacobian, f = jacrev(outputs)(psi), outputs(psi)
        curvature = torch.stack([torch.diag(p) - torch.outer(p, p) for p in f.softmax(1)])
        expected = torch.einsum("ncp,ncd,ndq->pq", jacobian, curvature, jacobian)
    found = make(charted, (x, y))
    torch.testing.assert_close(found.to_dense(), expected.detach(), rtol=1e-9, atol=1e-9)


def test_a_metric_that_is_carried_along_leaves_the_spectrum():
    network = averaged(0)
    charted, data = in_polar(network), (torch.randn(6, 1, 4, 4), torch.arange(6) % 2)
    metric = 0.5 + torch.rand(len(charted.psi), generator=torch.Generator().manual_seed(0))
    there = geometry.gauss_newton(charted, data)
    here = geometry.gauss_newton(network, data)
    expected = torch.linalg.eigvals(here.to_dense() / metric[:, None]).real.sort().values
    found = torch.linalg.eigvalsh(there.under(metric, charted.point).to_dense())
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    naive = torch.linalg.eigvalsh(there.to_dense())  # the control
    assert (naive[-1] / torch.linalg.eigvalsh(here.to_dense())[-1] - 1).abs() > 0.01
