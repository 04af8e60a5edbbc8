r"""How many of each weight's entries did the data decide?"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..linalg import Block
from ..priors import Prior
from .choice import joined_shifts
from .passes import Factors

__all__ = ["EffectiveParameters", "effective_parameters"]


class EffectiveParameters(NamedTuple):
    r"""The effective number of parameters of one group of weights.

    Arguments:
        group: The prior's group.
        gamma: :math:`\gamma = \sum \lambda/(\lambda+\delta)`, between 0 (the prior decides) and `num_params`.
        num_params: The number P of entries in the group.
        normalised: :math:`\gamma / P`.
        relative: The group's share of the sum of all groups' normalised numbers.
    """

    group: str
    gamma: float
    num_params: int
    normalised: float
    relative: float


@torch.no_grad()
def effective_parameters(
    factors: Factors, prior: Prior, weights: Mapping[str, nn.Parameter]
) -> list[EffectiveParameters]:
    """The effective numbers of all groups, in the order of the prior's."""
    per_weight = _per_weight(factors.curvature, prior, weights)
    gamma, sizes = dict.fromkeys(prior.groups, 0.0), dict.fromkeys(prior.groups, 0)
    for name, weight in weights.items():
        gamma[prior.group_of(name)] += float(per_weight[name])
        sizes[prior.group_of(name)] += weight.numel()
    normalised = {group: gamma[group] / sizes[group] for group in prior.groups}
    total = sum(normalised.values())
    return [
        EffectiveParameters(g, gamma[g], sizes[g], normalised[g], normalised[g] / total if total else 0.0)
        for g in prior.groups
    ]


def _per_weight(curvature: Block, prior: Prior, weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    shifts = joined_shifts(curvature, prior, weights)
    if set(curvature.blocks) == set(weights):
        return {name: curvature[name].effective_dimension(shifts[name]) for name in weights}
    (shift,) = shifts.values()
    # a full matrix has no block per weight: γ_p = 1 − δ_p [(H + δ)⁻¹]_pp, entry by entry
    inverse = curvature.solve(torch.eye(curvature.size, dtype=shift.dtype, device=shift.device), shifts)
    entries = (1 - shift * inverse.diagonal()).split([weight.numel() for weight in weights.values()])
    return {name: part.sum() for name, part in zip(weights, entries, strict=True)}
