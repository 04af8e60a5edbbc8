r"""The objective of Augerino, a baseline: widths climb the training fit and a reward for being wide.

.. math:: \frac1B \sum_n \log p(y_n | \hat f(x_n)) + \lambda \|w\|_2, \qquad \lambda = 0.01

jointly with the weights, batch by batch (Benton et al. 2020). Its weight decay of 10⁻⁴ is a fixed prior of precision
10⁻⁴ N. It knows no evidence: nothing but λ says how wide a width should be.

One thing differs from its authors' code: the Adam of its widths is that of all hyperparameters here, with β₂ = 0.95
instead of 0.999.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..errors import StructureError
from ..hypergrad.hyperparameters import gradients

AUGERINO_DECAY, AUGERINO_RATE = 1e-4, 0.005
REWARD = 0.01


def augerino_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of the network's augmentation that are learned, by name in the network."""
    augment = getattr(network, "augment", None)
    if not isinstance(augment, nn.Module) or not hasattr(augment, "widths"):
        raise StructureError(
            f"The estimator 'augerino' learns the widths of an augmentation; {type(network).__name__} has none. Wrap "
            "the network in Averaged, or use the estimator 'two_pass'."
        )
    return {f"augment.{name}": p for name, p in augment.named_parameters() if p.requires_grad}


@torch.enable_grad()
def augerino_reward(network: nn.Module, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    r"""The gradient of :math:`\lambda \|w\|_2` with respect to the augmentation's parameters, by name."""
    widths: Tensor = network.augment.widths  # type: ignore[union-attr, assignment]
    return gradients(REWARD * widths.norm(), parameters)
