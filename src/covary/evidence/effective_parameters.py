r"""Effective numbers of parameters: how many entries of each weight the data determine."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..batches import Data, as_batches
from ..curvature.passes import check_model, curvature_pass
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_blocks, joined_shifts
from ..linalg import Block
from ..models import Model, as_model


class EffectiveParameters(NamedTuple):
    r"""The effective number of parameters of one group of weights.

    Arguments:
        group: The prior's group.
        gamma: :math:`\gamma = \sum \lambda/(\lambda+\delta)`, between 0 (the prior decides) and `num_params`.
        num_params: The number P of entries in the group.
        normalized: :math:`\gamma / P`.
        relative: The group's fraction of the sum of all groups' normalized numbers.

    Example:
        >>> import torch, covary
        >>> data = torch.randn(8, 4), torch.arange(8) % 3
        >>> weight, bias = covary.effective_parameters(torch.nn.Linear(4, 3), data)
        >>> weight.group, weight.num_params, 0 < weight.normalized < 1
        ('weight', 12, True)
    """

    group: str
    gamma: float
    num_params: int
    normalized: float
    relative: float


@torch.no_grad()
def effective_parameters(
    model: nn.Module | Model, data: Data, curvature: Curvature | CurvatureName = "kron", *, seed: int = 0
) -> list[EffectiveParameters]:
    """The effective numbers of parameters of the prior's groups, in their order.

    Arguments:
        model: The model, or a network.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure; any but "kernel".
        seed: The seed of the augmentation's noise and of random probes.

    Example:
        >>> import torch, covary
        >>> data = torch.zeros(8, 4), torch.arange(8) % 3
        >>> [group.gamma for group in covary.effective_parameters(torch.nn.Linear(4, 3, bias=False), data)]
        [0.0]
    """
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    check_blocks(curvature, model.prior)
    check_model(model, batches)
    per_weight = effective_per_weight(model, curvature_pass(model, batches, curvature, seed=seed).curvature)
    prior = model.prior
    gamma, sizes = dict.fromkeys(prior.groups, 0.0), dict.fromkeys(prior.groups, 0)
    for name, weight in model.weights.items():
        gamma[prior.group_of(name)] += float(per_weight[name])
        sizes[prior.group_of(name)] += weight.numel()
    normalized = {group: gamma[group] / sizes[group] for group in prior.groups}
    total = sum(normalized.values())
    return [
        EffectiveParameters(g, gamma[g], sizes[g], normalized[g], normalized[g] / total if total else 0.0)
        for g in prior.groups
    ]


@torch.no_grad()
def effective_per_weight(model: Model, curvature: Block) -> dict[str, Tensor]:
    r"""The effective number :math:`\gamma` of each tensor, whatever groups the prior has."""
    weights, shifts = model.weights, joined_shifts(curvature, model)
    if set(curvature.blocks) == set(weights):
        return {name: curvature[name].effective_dimension(shifts[name]) for name in weights}
    (shift,) = shifts.values()
    # a full matrix has no block per weight: γ_p = 1 − δ_p [(H + δ)⁻¹]_pp, entry by entry
    inverse = curvature.solve(torch.eye(curvature.size, dtype=shift.dtype, device=shift.device), shifts)
    entries = (1 - shift * inverse.diagonal()).split([weight.numel() for weight in weights.values()])
    return {name: part.sum() for name, part in zip(weights, entries, strict=True)}
