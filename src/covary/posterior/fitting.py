"""One pass over the data: the mean and the curvature of the posterior."""

from collections.abc import Mapping
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .._types import TensorMap
from ..batches import Data, as_batches
from ..curvature.passes import CurvatureStatistics, check_model, curvature_pass
from ..curvature.registry import BlocksFunction, Curvature, check_blocks, joined_shifts
from ..errors import StructureError
from ..linalg import Block
from ..models import Model
from .head import head_kron_blocks
from .last_layer import last_layer_weights

CURVATURES = ("kron", "kron-traced", "full", "diag")
SUBSETS = ("all", "last_layer")
Subset = Literal["all", "last_layer"]


class Fitted(NamedTuple):
    r"""The posterior :math:`N(\theta, (H + \delta)^{-1})` after a pass over all data.

    Arguments:
        curvature: The structure of H, "kron", "kron-traced", "full" or "diag".
        subset: The weights, "all" or "last_layer".
        seed: The seed of an averaged network's noise.
        mean: The weights θ by name.
        statistics: The curvature H, log-likelihood and gradient; sums over data.
    """

    curvature: str
    subset: str
    seed: int
    mean: Mapping[str, Tensor]
    statistics: CurvatureStatistics


@torch.no_grad()
def fit(model: Model, data: Data, curvature: Curvature, *, subset: str, seed: int) -> Fitted:
    """The posterior's mean and curvature.

    Arguments:
        model: The model.
        data: The training data.
        curvature: The choice of curvature.
        subset: "all" or "last_layer".
        seed: The seed of an averaged network's noise and of random probes.
    """
    if subset not in SUBSETS:
        raise StructureError(f"Expected subset 'all' or 'last_layer', got {subset!r}. Choose one of these.")
    check_blocks(curvature, model.prior)
    batches = as_batches(data)
    blocks_of: BlocksFunction | None = None
    if subset == "last_layer":
        model = model.restricted(last_layer_weights(model, next(iter(batches)).x[:1], seed))
        if curvature.structure == "kron" and curvature.probes == "exact":
            blocks_of = partial(head_kron_blocks, model.likelihood, curvature)
    check_model(model, batches)
    statistics = curvature_pass(model, batches, curvature, seed=seed, with_gradient=True, blocks_of=blocks_of)
    mean = {name: weight.detach().clone() for name, weight in model.weights.items()}
    return Fitted(curvature.structure, subset, seed, mean, statistics)


def fitted_map(fitted: Fitted, function: TensorMap) -> Fitted:
    """The same with the function applied to every tensor."""
    curvature, log_likelihood, gradient, num_data = fitted.statistics
    gradient = None if gradient is None else {n: function(g) for n, g in gradient.items()}
    changed = CurvatureStatistics(curvature.map(function), function(log_likelihood), gradient, num_data)
    return fitted._replace(mean={n: function(m) for n, m in fitted.mean.items()}, statistics=changed)


@torch.no_grad()
def posterior_shifts(curvature: Block, model: Model) -> dict[str, Tensor]:
    """The prior's present precisions, one shift per block, in the curvature's dtype and device."""
    shifts = joined_shifts(curvature, model)
    return {name: shift.to(curvature.device, curvature.dtype) for name, shift in shifts.items()}
