"""What sparse dense layers become without a length-scale, against the layers themselves at length-scale nought."""

import torch
from torch import nn

import covary
from covary.layers import SparseDense
from covary.layers.sparse import GlobalSum, stationary
from layers.test_sparse import IN, OUT, moved, without_omega


def test_stationary_is_the_layer_without_omega():
    layer, x = moved(SparseDense(IN, OUT)), torch.randn(4, *IN)
    plain = stationary(layer)
    assert (plain(x) - layer(x)).abs().max() > 1e-2  # the control: with ω = 1 it is another map
    torch.testing.assert_close(plain(x), without_omega(layer)(x))


def test_the_stationary_map_has_curvature():
    network = nn.Sequential(stationary(SparseDense(IN, OUT)), nn.Flatten(), nn.Linear(24, 3))
    covary.curvature.kfac(network, (torch.randn(2, *IN), torch.tensor([0, 2])))
    assert isinstance(network[0], GlobalSum)
