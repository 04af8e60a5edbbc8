"""Fully connected and small convolutional networks, with initial weights from an explicit generator."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from ..errors import ShapeError, UnsupportedLayerError
from .recipes import recorded

_MIDDLE_KERNEL = {28: 3, 32: 5}  # the size after which the last convolution of LeNet has 5×5 positions


@recorded
def mlp(
    num_inputs: int,
    num_hidden: int | Sequence[int],
    num_outputs: int,
    activation: Callable[[], nn.Module] = nn.Tanh,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Fully connected network, (N, ...) -> (N, C); `mlp(784, 1000, 10)` is the one of paper 1.

    Arguments:
        num_inputs: The number of inputs per datum, flattened.
        num_hidden: The width of the hidden layer, or of each; an empty sequence makes a linear model.
        num_outputs: The number of outputs C.
        activation: The nonlinearity after each hidden layer, a class or function that makes it.
        generator: The source of the initial weights; None uses torch's global seed.

    Example:
        >>> import torch
        >>> from covary.networks import mlp
        >>> network = mlp(784, 1000, 10, generator=torch.Generator().manual_seed(0))
        >>> sum(weight.numel() for weight in network.parameters())
        795010
    """
    hidden = [num_hidden] if isinstance(num_hidden, int) else list(num_hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise([num_inputs, *hidden]):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    layers += [nn.Linear([num_inputs, *hidden][-1], num_outputs)]
    return initialize(nn.Sequential(*layers), generator)


@recorded
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
        generator: The source of the initial weights; None uses torch's global seed.

    Example:
        >>> import torch
        >>> from covary.networks import cnn
        >>> cnn(num_channels=3, image_size=32)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if image_size < 8:
        raise ShapeError(f"Expected images with a side of 8 or more for cnn, got {image_size}. Use mlp.")
    layers: list[nn.Module] = []
    for fan_in, fan_out in ((num_channels, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    num_features = 64 * (image_size // 8) ** 2
    layers += [nn.Flatten(), nn.Linear(num_features, 256), nn.ReLU(), nn.Linear(256, num_outputs)]
    return initialize(nn.Sequential(*layers), generator)


@recorded
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
        generator: The source of the initial weights; None uses torch's global seed.

    Example:
        >>> import torch
        >>> from covary.networks import lenet
        >>> lenet()(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    if image_size not in _MIDDLE_KERNEL:
        raise ShapeError(f"Expected images of side 28 or 32 for lenet, got {image_size}. Resize them, or use cnn.")
    network = nn.Sequential(
        *(nn.Conv2d(num_channels, 6, 5), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, _MIDDLE_KERNEL[image_size]), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, num_outputs)),
    )
    return initialize(network, generator)


def initialize(network: nn.Sequential, generator: torch.Generator | None) -> nn.Sequential:
    """Draw the weights of linear and convolutional layers in place, and return the network.

    As by default in torch, weights and biases are uniform on ±1/√fan_in, weight before bias, in the order of
    `modules()`. None leaves the network as it is; a layer with parameters of another kind raises
    `UnsupportedLayerError`.
    """
    if generator is None:
        return network
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | _ConvNd):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif next(module.parameters(recurse=False), None) is not None:
            raise UnsupportedLayerError(
                f"Expected linear and convolutional layers, got '{name}', a {type(module).__name__} with parameters. "
                "Initialize it yourself, and the layers around it with `initialize`."
            )
    return network
