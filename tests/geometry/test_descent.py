import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from chart_cases import CURVED, NAMES, SIZE, make_charts, normal, quartic, start
from covary import Gaussian
from covary.errors import ChartError, DataError, StructureError
from covary.geometry import (
    CARTESIAN,
    CartesianOptimizer,
    InvariantDescent,
    adam_rule,
    affine,
    diagonal_metric,
    euclidean_metric,
    fisher_metric,
    steepest,
)

INPUTS = normal(0, 12, 2)
LOSS, MINIMUM = quartic(4)
TIME = 0.1
X, Y = normal(0, 16, 3), normal(1, 16, 2)
OPTIMIZERS = {
    "sgd": partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": partial(torch.optim.Adam, lr=0.05),
    "rmsprop": partial(torch.optim.RMSprop, lr=0.01),
    "adamw": partial(torch.optim.AdamW, lr=0.05, weight_decay=0.1),
}


def model(theta):
    return theta[4:] * torch.tanh(INPUTS @ theta[:4].view(2, 2))


RULES = {
    "identity": steepest(euclidean_metric()),
    "Adam's diagonal": steepest(diagonal_metric(0.2 + start(2))),
    "Adam": adam_rule(betas=(0.5, 0.8), epsilon=0.1),
    "Fisher": steepest(fisher_metric(model, Gaussian(0.5)).damped(0.5)),
}


def end(rule, chart, num_steps):
    """The end of the path after a fixed time, in θ."""
    path = InvariantDescent(rule, TIME / num_steps, chart).run(LOSS, start(3), num_steps)
    return chart.inverse(path[-1]).detach()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in CURVED])
def test_paths_in_affine_charts_agree_to_rounding(rule, name):
    chart = make_charts(1)[name]
    plain = InvariantDescent(RULES[rule], 0.02).run(LOSS, start(3), 12)
    moved = InvariantDescent(RULES[rule], 0.02, chart).run(LOSS, start(3), 12)
    torch.testing.assert_close(chart.inverse(moved), plain, rtol=1e-10, atol=1e-11)
    assert (plain[-1] - plain[0]).norm() > 0.1
    naive = InvariantDescent(steepest(euclidean_metric(chart)), 0.02, chart).run(LOSS, start(3), 12)
    assert (chart.inverse(naive)[-1] - plain[-1]).norm() > 1e-3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["polar", "logarithm", "flow"])
def test_halving_the_step_halves_the_gap_of_other_charts(rule, name):
    chart = make_charts(1)[name]
    coarse, fine = (
        float((end(RULES[rule], chart, num_steps) - end(RULES[rule], CARTESIAN, num_steps)).norm())
        for num_steps in (12, 24)
    )
    assert 1.75 < coarse / fine < 2.3  # 2 in the limit


@pytest.mark.parametrize("name", ["polar", "logarithm", "flow"])
def test_plain_descent_in_other_charts_is_another_descent(name):
    """However small the steps; with the metric that it implies, Euclidean in ψ, it is the same again."""
    chart = make_charts(1)[name]
    implied = steepest(euclidean_metric(chart))
    coarse, fine = (
        float((end(implied, chart, num_steps) - end(RULES["identity"], CARTESIAN, num_steps)).norm())
        for num_steps in (12, 24)
    )
    assert coarse / fine < 1.3
    assert fine > 1e-2
    assert float((end(implied, chart, 24) - end(implied, CARTESIAN, 24)).norm()) < 0.5 * fine


def test_steps_are_those_of_the_definition():
    chart, theta = make_charts(1)["polar"], start(3)
    descent = InvariantDescent(RULES["Fisher"], 0.1, chart)
    metric = fisher_metric(model, Gaussian(0.5)).matrix(theta) + 0.5 * torch.eye(SIZE)
    psi = chart.forward(theta)
    (gradient,) = torch.autograd.grad(LOSS(variable := theta.clone().requires_grad_()), variable)
    expected = psi - 0.1 * chart.jacobian(theta) @ torch.linalg.solve(metric, gradient)
    torch.testing.assert_close(descent.step(LOSS, descent.init(theta)).coordinates, expected)


def test_the_adam_rule_takes_the_steps_of_adam():
    theta = start(3)
    parameter = torch.nn.Parameter(theta.clone())
    optimizer = torch.optim.Adam([parameter], lr=0.01, betas=(0.8, 0.95), eps=1e-3)
    for _ in range(20):
        optimizer.zero_grad()
        LOSS(parameter).backward()
        optimizer.step()
    path = InvariantDescent(adam_rule((0.8, 0.95), 1e-3), 0.01).run(LOSS, theta, 20)
    torch.testing.assert_close(path[-1], parameter.detach())


def test_natural_gradient_solves_a_linear_gaussian_model_in_one_step():
    """And does so in any affine chart, by its own pulled-back Fisher or by one computed there."""
    features, targets = normal(5, 20, SIZE), normal(6, 20, 1)
    chart, likelihood = affine(normal(7, SIZE, SIZE) + 4 * torch.eye(SIZE)), Gaussian(0.3)

    def outputs(theta):
        return (features @ theta)[:, None]

    def loss(theta):
        return -likelihood.log_prob(outputs(theta), targets)

    expected = torch.linalg.lstsq(features, targets).solution[:, 0]
    path = InvariantDescent(steepest(fisher_metric(outputs, likelihood)), 1.0, chart).run(loss, start(8), 1)
    torch.testing.assert_close(chart.inverse(path[-1]).detach(), expected)
    there = fisher_metric(lambda psi: outputs(chart.inverse(psi)), likelihood)
    path = InvariantDescent(steepest(there), 1.0).run(lambda psi: loss(chart.inverse(psi)), chart.forward(start(8)), 1)
    torch.testing.assert_close(chart.inverse(path[-1]).detach(), expected)


def test_bad_steps_are_refused():
    with pytest.raises(DataError, match="step_size"):
        InvariantDescent(RULES["identity"], 0.0)


def plain_network():
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    for seed, parameter in enumerate(network.parameters()):
        parameter.data = normal(seed + 2, *parameter.shape)
    return network


def normalized_network(axis=0):
    network = plain_network()
    for layer in (network[0], network[2]):
        parametrizations.weight_norm(layer, dim=axis)
        with torch.no_grad():  # any length of v, any sign of g: the same weight
            layer.parametrizations.weight.original1.mul_(-3.0)
            layer.parametrizations.weight.original0.neg_()
    return network


def train(network, optimizer, num_steps=25):
    for _ in range(num_steps):
        optimizer.zero_grad()
        (network(X) - Y).square().mean().backward()
        optimizer.step()
    return torch.cat([network[0].weight.flatten(), network[2].weight.flatten(), network[0].bias, network[2].bias])


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_the_path_is_the_cartesian_one(name, axis):
    make, network, plain = OPTIMIZERS[name], normalized_network(axis), plain_network()
    torch.testing.assert_close(network(X), plain(X))
    found, expected = train(network, CartesianOptimizer(network, make)), train(plain, make(plain.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)
    naive = normalized_network(axis)
    assert not torch.allclose(train(naive, make(naive.parameters())), expected, atol=1e-3)


def test_the_length_of_v_does_not_change():
    network = normalized_network()
    directions = network[0].parametrizations.weight.original1
    before = directions.norm(dim=1).clone()
    train(network, CartesianOptimizer(network, OPTIMIZERS["adam"]))
    torch.testing.assert_close(directions.norm(dim=1), before)
    assert (network[0].parametrizations.weight.original0 < 0).all()


def test_schedules_and_saved_states_work_as_ever():
    make, whole, halved = OPTIMIZERS["adam"], normalized_network(), normalized_network()
    optimizer = CartesianOptimizer(whole, make)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
    train(whole, optimizer, 10)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.005)
    expected = train(whole, optimizer, 10)

    first = CartesianOptimizer(halved, make)
    train(halved, first, 10)
    saved = copy.deepcopy(first.state_dict())
    second = CartesianOptimizer(halved, make)
    second.load_state_dict(saved)
    for group in second.param_groups:
        group["lr"] *= 0.1
    torch.testing.assert_close(train(halved, second, 10), expected)


def test_a_closure_gives_its_loss():
    network = normalized_network()
    optimizer = CartesianOptimizer(network, OPTIMIZERS["sgd"])

    def closure():
        optimizer.zero_grad()
        loss = (network(X) - Y).square().mean()
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    assert optimizer.step(closure).item() < first


def test_weights_without_gradient_do_not_change():
    network = normalized_network()
    before = network[2].weight.detach().clone()
    optimizer = CartesianOptimizer(network, OPTIMIZERS["sgd"])
    network[0](X).square().sum().backward()
    optimizer.step()
    assert torch.equal(network[2].weight, before) or torch.allclose(network[2].weight, before, rtol=1e-14)


def test_a_length_of_zero_is_refused():
    network = normalized_network()
    optimizer = CartesianOptimizer(network, OPTIMIZERS["sgd"])
    with torch.no_grad():
        network[0].parametrizations.weight.original0[0] = 0
    with pytest.raises(ChartError, match="'0.weight' is 0"):
        train(network, optimizer, 1)


def test_a_step_to_zero_is_refused():
    network = normalized_network()
    decay = CartesianOptimizer(network, partial(torch.optim.SGD, lr=1.0, weight_decay=1.0))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with pytest.raises(ChartError, match="norm 0"):
        decay.step()


def test_other_parametrizations_are_refused():
    network = nn.Sequential(parametrizations.orthogonal(nn.Linear(3, 3)))
    with pytest.raises(StructureError, match="'0.weight' under _Orthogonal"):
        CartesianOptimizer(network, OPTIMIZERS["sgd"])
