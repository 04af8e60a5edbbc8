import pytest
import torch

from covary.errors import ShapeError
from covary.networks import cnn, lenet


def num_params(network):
    return sum(p.numel() for p in network.parameters())


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
    with pytest.raises(ShapeError, match="side of 8 or more; 7 came"):
        cnn(image_size=7)
    with pytest.raises(ShapeError, match="side 28 or 32; 30 came"):
        lenet(image_size=30)
