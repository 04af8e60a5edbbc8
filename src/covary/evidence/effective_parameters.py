r"""How many of each weight's entries did the data decide?"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..batches import Data, as_batches
from ..curvature.registry import CurvatureName, blocks_function, check_choice, joined_shifts
from ..errors import StructureError
from ..likelihoods import Likelihood
from ..linalg import Block
from ..priors import Prior
from .passes import Factors, Model, check_model, factor_pass


class EffectiveParameters(NamedTuple):
    r"""The effective number of parameters of one group of weights.

    Arguments:
        group: The prior's group.
        gamma: :math:`\gamma = \sum \lambda/(\lambda+\delta)`, between 0 (the prior decides) and `num_params`.
        num_params: The number P of entries in the group.
        normalized: :math:`\gamma / P`.
        relative: The group's share of the sum of all groups' normalized numbers.
    """

    group: str
    gamma: float
    num_params: int
    normalized: float
    relative: float


def effective_parameters(
    network: nn.Module,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    curvature: CurvatureName = "kron",
    seed: int = 0,
    *,
    batch_size: int | None = None,
) -> list[EffectiveParameters]:
    """The effective numbers of parameters of the prior's groups, in their order, with exact columns.

    Arguments as for `log_evidence`; curvature "kron", "kron-traced", "full" or "diag".
    """
    check_choice(curvature, "exact", prior)
    if curvature == "kernel":
        raise StructureError(
            "curvature='kernel' has no blocks of weights to count in. Use 'kron', 'kron-traced', 'full' or 'diag'."
        )
    model = Model(network, likelihood, prior.weights(network), seed)
    batches = as_batches(data, batch_size)
    check_model(model, batches)
    return effective_of_factors(factor_pass(model, batches, blocks_function(curvature), "exact"), prior, model.weights)


@torch.no_grad()
def effective_of_factors(
    factors: Factors, prior: Prior, weights: Mapping[str, nn.Parameter]
) -> list[EffectiveParameters]:
    """The effective numbers at the statistics of a pass."""
    per_weight = effective_per_weight(factors.curvature, prior, weights)
    gamma, sizes = dict.fromkeys(prior.groups, 0.0), dict.fromkeys(prior.groups, 0)
    for name, weight in weights.items():
        gamma[prior.group_of(name)] += float(per_weight[name])
        sizes[prior.group_of(name)] += weight.numel()
    normalized = {group: gamma[group] / sizes[group] for group in prior.groups}
    total = sum(normalized.values())
    return [
        EffectiveParameters(g, gamma[g], sizes[g], normalized[g], normalized[g] / total if total else 0.0)
        for g in prior.groups
    ]


@torch.no_grad()
def effective_per_weight(curvature: Block, prior: Prior, weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    r"""The effective number :math:`\gamma` of each tensor, whatever groups the prior has."""
    shifts = joined_shifts(curvature, prior, weights)
    if set(curvature.blocks) == set(weights):
        return {name: curvature[name].effective_dimension(shifts[name]) for name in weights}
    (shift,) = shifts.values()
    # a full matrix has no block per weight: γ_p = 1 − δ_p [(H + δ)⁻¹]_pp, entry by entry
    inverse = curvature.solve(torch.eye(curvature.size, dtype=shift.dtype, device=shift.device), shifts)
    entries = (1 - shift * inverse.diagonal()).split([weight.numel() for weight in weights.values()])
    return {name: part.sum() for name, part in zip(weights, entries, strict=True)}
