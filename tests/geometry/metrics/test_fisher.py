import pytest
import torch
from torch import nn

from chart_cases import normal
from covary import Bernoulli, Categorical, Gaussian, Model, curvature
from covary.geometry import (
    affine,
    empirical_fisher_metric,
    fisher_metric,
    flat_outputs,
    flatten,
    ggn_metric,
    kfac_metric,
    network_chart,
)
from oracles import curvature as oracle

X = normal(0, 9, 3)
TARGETS = {
    "categorical": (Categorical(), torch.arange(9) % 2),
    "gaussian": (Gaussian(0.7), normal(1, 9, 2)),
    "bernoulli": (Bernoulli(), (normal(2, 9, 2) > 0).double()),
}
SCALES = {"categorical": 1.0, "gaussian": 0.7, "bernoulli": 1.0}


def linear(inputs, outputs, seed, bias=True):
    layer = nn.Linear(inputs, outputs, bias=bias, dtype=torch.float64)
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = normal(seed + number, *parameter.shape)
    return layer


@pytest.fixture
def network():
    return nn.Sequential(linear(3, 4, 10), nn.Tanh(), linear(4, 2, 20))


@pytest.fixture
def theta(network):
    return flatten(dict(network.named_parameters())).detach()


@pytest.mark.parametrize("kind", TARGETS)
def test_fisher_is_the_ggn_of_the_engine_and_of_the_linearized_loss(network, theta, kind):
    likelihood, y = TARGETS[kind]
    loss = oracle.loss_of(kind, y, SCALES[kind])
    outputs = flat_outputs(network, X)
    found = fisher_metric(outputs, likelihood).matrix(theta)
    torch.testing.assert_close(found, oracle.ggn(network, X, loss))
    torch.testing.assert_close(found, curvature.full(Model(network, likelihood), (X, y)).to_dense())
    torch.testing.assert_close(found, ggn_metric(outputs, loss).matrix(theta))


@pytest.mark.parametrize("kind", TARGETS)
def test_empirical_fisher_is_the_sum_of_squared_gradients(network, theta, kind):
    likelihood, y = TARGETS[kind]
    expected = torch.zeros(len(theta), len(theta))
    for n in range(len(X)):
        loss = oracle.loss_of(kind, y[n : n + 1], SCALES[kind])(network(X[n : n + 1]))
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])
        expected += torch.outer(gradient, gradient)
    found = empirical_fisher_metric(flat_outputs(network, X), likelihood, y).matrix(theta)
    torch.testing.assert_close(found, expected)


def test_the_metrics_are_taken_at_theta_not_at_the_networks_own_weights(network, theta):
    likelihood, y = TARGETS["categorical"]
    metrics = [
        fisher_metric(flat_outputs(network, X), likelihood),
        kfac_metric(Model(network, likelihood), (X, y)),
    ]
    before = [metric.matrix(theta) for metric in metrics]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    for metric, old in zip(metrics, before, strict=True):
        torch.testing.assert_close(metric.matrix(theta), old)
        assert not torch.allclose(metric.matrix(2 * theta), old)
    torch.testing.assert_close(
        metrics[1].matrix(2 * theta), curvature.kfac(Model(network, likelihood), (X, y)).to_dense().detach()
    )


def test_kfac_solves_by_its_structure(network, theta):
    likelihood, y = TARGETS["gaussian"]
    metric = kfac_metric(Model(network, likelihood), (X, y)).damped(0.3)
    covector = normal(3, len(theta))
    torch.testing.assert_close(metric.solve(theta, covector), torch.linalg.solve(metric.matrix(theta), covector))
    torch.testing.assert_close(metric.log_det(theta), torch.logdet(metric.matrix(theta)))


def test_kfac_transforms_by_itself_where_a_layers_inputs_and_outputs_are_mixed():
    """Ψ = A W B for one weight: the layer becomes A⁻¹ Ψ B⁻¹, whose factors are the mixed ones."""
    first, second, y = linear(3, 4, 30, bias=False), linear(4, 2, 40, bias=False), TARGETS["gaussian"][1]
    network = nn.Sequential(first, nn.Tanh(), second)
    left, right = normal(50, 4, 4) + 3 * torch.eye(4), normal(51, 3, 3) + 3 * torch.eye(3)
    chart = network_chart(
        dict(network.named_parameters()), {"0.weight": affine(torch.kron(left, right.T.contiguous()))}
    )
    before, mixed, after = linear(3, 3, 0, bias=False), linear(3, 4, 0, bias=False), linear(4, 4, 0, bias=False)
    before.weight.data, after.weight.data = right.inverse(), left.inverse()
    mixed.weight.data = left @ first.weight.data @ right
    before.requires_grad_(False), after.requires_grad_(False)
    same = nn.Sequential(before, mixed, after, nn.Tanh(), second)
    torch.testing.assert_close(same(X), network(X))

    theta = flatten(dict(network.named_parameters())).detach()
    likelihood = Gaussian(0.7)
    pulled_back = kfac_metric(Model(network, likelihood), (X, y)).to(chart).matrix(chart.forward(theta))
    torch.testing.assert_close(curvature.kfac(Model(same, likelihood), (X, y)).to_dense().detach(), pulled_back)
    diagonal = torch.diag(curvature.diag(Model(network, likelihood), (X, y)).diagonal().detach())
    back = chart.inverted().jacobian(chart.forward(theta))
    by_itself = curvature.diag(Model(same, likelihood), (X, y)).to_dense().detach()
    assert not torch.allclose(by_itself, back.T @ diagonal @ back, rtol=1e-2, atol=1e-2)
