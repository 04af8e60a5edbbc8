import pytest
import torch
from torch import nn

from chart_cases import normal
from covary import Averaged
from covary.augment import Rotation2d
from covary.errors import ShapeError
from covary.geometry import flat_outputs, flatten, unflatten


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
