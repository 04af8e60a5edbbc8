import torch
from torch import nn

from covary.networks import mlp


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
