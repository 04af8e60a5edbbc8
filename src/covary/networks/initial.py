"""Initial weights from an explicit generator instead of the global seed."""

import math

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from ..errors import UnsupportedLayerError


def initialize(network: nn.Sequential, generator: torch.Generator | None) -> nn.Sequential:
    """The network itself, its linear and convolutional layers drawn anew as torch does by default.

    Weights and biases are uniform on ±1/√fan_in, weight before bias, in the order of `modules()`.

    Arguments:
        network: The network, changed in place; a layer with parameters of another kind is an error.
        generator: The source of randomness, or None to leave the network as it is.
    """
    if generator is None:
        return network
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | _ConvNd):
            _draw(module, generator)
        elif next(module.parameters(recurse=False), None) is not None:
            raise UnsupportedLayerError(
                f"initialize draws linear and convolutional layers; '{name}' is {type(module).__name__} with "
                "parameters of its own. Initialize the parts around it, and this one by hand."
            )
    return network


def _draw(layer: nn.Linear | _ConvNd, generator: torch.Generator) -> None:
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
