"""Small convolutional networks for square images."""

import torch
from torch import nn

from ..errors import ShapeError
from .initial import initialize

_MIDDLE_KERNEL = {28: 3, 32: 5}  # the size that leaves 5×5 positions for the last convolution of LeNet


def cnn(
    num_channels: int = 1,
    image_size: int = 28,
    num_outputs: int = 10,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Convolutional network 16-32-64 with 3×3 kernels, ReLU and 2×2 pools, hidden 256: (N, c, H, H) -> (N, C).

    Arguments:
        num_channels: The number of channels c of the images.
        image_size: Their side H, at least 8.
        num_outputs: The number of outputs C.
        generator: The source of the initial weights; None leaves them to torch's global seed.
    """
    if image_size < 8:
        raise ShapeError(f"cnn pools three times: images need a side of 8 or more; {image_size} came. Use mlp.")
    layers: list[nn.Module] = []
    for fan_in, fan_out in ((num_channels, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    num_features = 64 * (image_size // 8) ** 2
    layers += [nn.Flatten(), nn.Linear(num_features, 256), nn.ReLU(), nn.Linear(256, num_outputs)]
    return initialize(nn.Sequential(*layers), generator)


def lenet(
    num_channels: int = 1,
    image_size: int = 28,
    num_outputs: int = 10,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """LeNet 6-16-120-84 with tanh and 2×2 max pools: (N, c, H, H) -> (N, C).

    Arguments:
        num_channels: The number of channels c of the images.
        image_size: Their side H, 28 or 32; the second kernel is 3×3 or 5×5.
        num_outputs: The number of outputs C.
        generator: The source of the initial weights; None leaves them to torch's global seed.
    """
    if image_size not in _MIDDLE_KERNEL:
        raise ShapeError(f"lenet takes images of side 28 or 32; {image_size} came. Resize them, or use cnn.")
    network = nn.Sequential(
        *(nn.Conv2d(num_channels, 6, 5), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, _MIDDLE_KERNEL[image_size]), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, num_outputs)),
    )
    return initialize(network, generator)
