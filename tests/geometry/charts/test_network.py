import pytest
import torch
from torch import nn

from chart_cases import normal
from covary.errors import ChartError, ShapeError
from covary.geometry import CARTESIAN, flatten, logarithm, network_chart, polar_of, scaling, side_by_side, unflatten


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
    parts = unflatten(chart.forward(theta), weights)
    expected = polar_of(network[0].weight).forward(network[0].weight.flatten()).view(4, 3)
    torch.testing.assert_close(parts["0.weight"], expected)
    torch.testing.assert_close(parts["0.bias"], 2 * network[0].bias)
    torch.testing.assert_close(parts["2.weight"], network[2].weight)
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
    with pytest.raises(ChartError, match="A size per chart"):
        side_by_side([CARTESIAN], [1, 2])
    with pytest.raises(ShapeError, match="26 coordinates"):
        network_chart(weights, {"0.weight": polar_of}).forward(torch.ones(3))
