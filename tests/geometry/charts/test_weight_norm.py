import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from chart_cases import normal
from covary.errors import ChartError, StructureError
from covary.geometry import CartesianOptimizer

X, Y = normal(0, 16, 3), normal(1, 16, 2)
OPTIMIZERS = {
    "sgd": partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": partial(torch.optim.Adam, lr=0.05),
    "rmsprop": partial(torch.optim.RMSprop, lr=0.01),
    "adamw": partial(torch.optim.AdamW, lr=0.05, weight_decay=0.1),
}


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


def test_the_length_of_v_stays():
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


def test_weights_without_gradient_stay():
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
    with pytest.raises(StructureError, match="'0.weight' is under _Orthogonal"):
        CartesianOptimizer(network, OPTIMIZERS["sgd"])
