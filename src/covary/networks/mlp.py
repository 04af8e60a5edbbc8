"""Fully connected networks."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from .initial import initialize


def mlp(
    num_inputs: int,
    num_hidden: int | Sequence[int],
    num_outputs: int,
    activation: Callable[[], nn.Module] = nn.Tanh,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Fully connected network, (N, ...) -> (N, C); `mlp(784, 1000, 10)` is the one of paper 1, 795,010 weights.

    Arguments:
        num_inputs: The number of inputs per datum, flattened.
        num_hidden: The width of the hidden layer, or of each; an empty sequence makes a linear model.
        num_outputs: The number of outputs C.
        activation: The nonlinearity after each hidden layer, as a class or function that makes it.
        generator: The source of the initial weights; None leaves them to torch's global seed.
    """
    hidden = [num_hidden] if isinstance(num_hidden, int) else list(num_hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise([num_inputs, *hidden]):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    layers += [nn.Linear([num_inputs, *hidden][-1], num_outputs)]
    return initialize(nn.Sequential(*layers), generator)
