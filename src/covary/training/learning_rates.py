r"""How far does one step move each weight?

Adam moves every entry of a tensor by about its learning rate, whatever the gradient. So learning rates are relative to
sizes: the root mean square s of the initial values and, with `prior_scaled_lr`, the standard deviation of the prior,
whichever is smaller. The *unit* of a tensor with prior precision δ is then

.. math:: u = \min(s, \delta^{-1/2}),

its learning rate r u / `relative_lr` (of a single entry a tenth of r u / s), and a gradient g has the length
:math:`(\sum_t u_t^2 \|g_t\|^2)^{1/2}`. Under Adam neither changes when a tensor and its prior are measured on another
scale.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..config import FitConfig
from ..models import Model
from ..priors import Prior, mean_precisions
from .schedule import cosine

SCALAR_SLOWDOWN = 10  # scalars of Fixup networks take a tenth of the learning rate, as their authors advise


def start_size(weight: Tensor, config: FitConfig) -> float:
    """The size s of a tensor: its root mean square; `relative_lr`, or 1 without one, where it starts at zero."""
    size = float(weight.detach().square().mean().sqrt())
    return size if size > 0 else config.weights.relative_lr or 1.0


def first_rate(weight: Tensor, config: FitConfig) -> float:
    """The first learning rate of one weight tensor."""
    if weight.numel() == 1:
        return config.weights.lr / SCALAR_SLOWDOWN
    return config.weights.lr * (
        start_size(weight, config) / config.weights.relative_lr if config.weights.relative_lr else 1.0
    )


def set_rates(optimizer: Optimizer, progress: float | int, share: float | int = 1) -> None:
    """Set the learning rate of each group at this progress in [0, 1] of its schedule, or a fraction of it."""
    for group in optimizer.param_groups:
        group["lr"] = share * cosine(group["first"], group["final"], progress)


def follow(optimizer: Optimizer, prior: Prior) -> None:
    """Lower the learning rate of each group from the size that its tensor started with to its unit."""
    for group, unit in zip(optimizer.param_groups, units(optimizer, prior).values(), strict=True):
        group["lr"] *= unit / group["size"]


def units(optimizer: Optimizer, prior: Prior) -> dict[str, float]:
    """The unit of each weight, by name; the optimizer has a group for each, in their order."""
    precisions = mean_precisions(prior)
    sizes = [group["size"] for group in optimizer.param_groups]
    return {name: min(size, precisions[name] ** -0.5) for name, size in zip(precisions, sizes, strict=True)}


@torch.no_grad()
def start_within(model: Model, prior: Prior) -> None:
    """Scale weights down to the standard deviation of their prior, where their root mean square is above it."""
    precisions = mean_precisions(prior)
    for name, weight in model.weights.items():
        size = float(weight.square().mean().sqrt())
        weight.mul_(min(1.0, precisions[name] ** -0.5 / size) if size > 0 else 1.0)


def clip_gradients(weights: Mapping[str, nn.Parameter], sizes: Mapping[str, float], most: float) -> None:
    """Scale all gradients down to a maximal norm, in units of these sizes, if they are above it."""
    norms = {name: torch.linalg.vector_norm(weight.grad) for name, weight in weights.items() if weight.grad is not None}
    length = torch.linalg.vector_norm(torch.stack([sizes[name] * norm for name, norm in norms.items()]))
    nn.utils.clip_grads_with_norm_(weights.values(), most, length)
