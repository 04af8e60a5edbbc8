import pytest
import torch
from torch import nn

from covary.errors import ShapeError, UnsupportedLayerError
from covary.networks import cnn, lenet, mlp
from covary.networks.feedforward import initialize


def num_params(network):
    return sum(p.numel() for p in network.parameters())


def test_the_network_of_the_first_paper():
    network = mlp(784, 1000, 10)
    assert num_params(network) == 795_010
    assert [type(layer) for layer in network] == [nn.Flatten, nn.Linear, nn.Tanh, nn.Linear]
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_several_hidden_layers_and_none():
    deep = mlp(5, (4, 3), 2, nn.ReLU)
    assert [layer.out_features for layer in deep if isinstance(layer, nn.Linear)] == [4, 3, 2]
    assert sum(isinstance(layer, nn.ReLU) for layer in deep) == 2
    assert [type(layer) for layer in mlp(5, (), 2)] == [nn.Flatten, nn.Linear]


@pytest.mark.parametrize(("num_channels", "image_size", "side"), [(1, 28, 3), (3, 32, 4), (1, 8, 1)])
def test_cnn(num_channels, image_size, side):
    network = cnn(num_channels, image_size, 7)
    assert network(torch.zeros(2, num_channels, image_size, image_size)).shape == (2, 7)
    convolutions = (9 * num_channels + 1) * 16 + (9 * 16 + 1) * 32 + (9 * 32 + 1) * 64
    assert num_params(network) == convolutions + (64 * side**2 + 1) * 256 + 257 * 7


@pytest.mark.parametrize(("num_channels", "image_size", "kernel"), [(1, 28, 3), (3, 32, 5)])
def test_lenet(num_channels, image_size, kernel):
    network = lenet(num_channels, image_size, 7)
    assert network(torch.zeros(2, num_channels, image_size, image_size)).shape == (2, 7)
    convolutions = (25 * num_channels + 1) * 6 + (6 * kernel**2 + 1) * 16 + (16 * 25 + 1) * 120
    assert num_params(network) == convolutions + 121 * 84 + 85 * 7


def test_sizes_that_do_not_fit():
    with pytest.raises(ShapeError, match="side of 8 or more for cnn, got 7"):
        cnn(image_size=7)
    with pytest.raises(ShapeError, match="side 28 or 32 for lenet, got 30"):
        lenet(image_size=30)


MAKERS = {"mlp": lambda **k: mlp(6, (5, 4), 3, **k), "cnn": lambda **k: cnn(1, 8, **k), "lenet": lenet}


def flat(network):
    return nn.utils.parameters_to_vector(network.parameters()).detach()


@pytest.mark.parametrize("name", MAKERS)
def test_equal_to_the_default_of_torch_under_the_same_seed(name):
    torch.manual_seed(11)
    expected = flat(MAKERS[name]())
    torch.manual_seed(12)
    assert torch.equal(flat(MAKERS[name](generator=torch.Generator().manual_seed(11))), expected)
    assert not torch.equal(flat(MAKERS[name](generator=torch.Generator().manual_seed(12))), expected)


def test_none_leaves_the_network_alone():
    network = nn.Sequential(nn.Linear(2, 2))
    before = flat(network)
    assert initialize(network, None) is network
    assert torch.equal(flat(network), before)


def test_layers_without_bias(generator):
    layer = nn.Linear(3, 2, bias=False)
    initialize(nn.Sequential(layer), generator)
    assert layer.weight.abs().max() <= 3**-0.5


def test_other_layers_are_refused(generator):
    with pytest.raises(UnsupportedLayerError, match="got '1', a BatchNorm1d"):
        initialize(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), generator)
