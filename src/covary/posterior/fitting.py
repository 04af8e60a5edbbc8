"""One pass over the data: the mean and the curvature of the posterior."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._types import TensorMap
from ..batches import Batches, Data, as_batches
from ..curvature.full import FULL
from ..curvature.registry import BlocksFunction, blocks_function, check_choice
from ..errors import StructureError
from ..evidence import Factors, Model, factor_pass
from ..evidence.passes import check_model
from ..likelihoods import Likelihood
from ..linalg import Block
from ..priors import Prior
from .head import head_kron_blocks
from .last_layer import last_layer_weights

CURVATURES = ("kron", "kron-traced", "full", "diag")
SUBSETS = ("all", "last_layer")


class Fitted(NamedTuple):
    r"""What a pass over all data leaves of the posterior :math:`N(\theta, (H + \delta)^{-1})`.

    Arguments:
        curvature: The structure of H, "kron", "kron-traced", "full" or "diag".
        subset: The weights, "all" or "last_layer".
        seed: The seed of an averaged network's noise.
        mean: The weights θ by name.
        factors: The curvature H, log-likelihood and gradient; sums over data.
    """

    curvature: str
    subset: str
    seed: int
    mean: Mapping[str, Tensor]
    factors: Factors


def check_options(curvature: str, subset: str, prior: Prior) -> None:
    """Nothing, or the reason why no posterior can be made of these choices."""
    if curvature not in CURVATURES:
        raise StructureError(
            f"The curvature of a posterior must be 'kron', 'kron-traced', 'full' or 'diag'; {curvature!r} came. (The "
            "kernel is a curvature over data and has no distribution of weights.)"
        )
    if subset not in SUBSETS:
        raise StructureError(f"subset must be 'all' or 'last_layer'; {subset!r} came. Choose one of these.")
    check_choice(curvature, "exact", prior)


def fit(
    network: nn.Module, likelihood: Likelihood, prior: Prior, data: Data, options: tuple[str, str, int, int | None]
) -> Fitted:
    """The posterior's mean and curvature.

    Arguments:
        network: The network, averaged or plain.
        likelihood: The likelihood.
        prior: The prior, made for this network.
        data: The training data.
        options: Curvature, subset, seed and batch size.
    """
    curvature, subset, seed, batch_size = options
    check_options(curvature, subset, prior)
    batches = as_batches(data, batch_size)
    model = Model(network, likelihood, _weights(network, prior, batches, subset, seed), seed)
    check_model(model, batches)
    blocks_of: BlocksFunction = blocks_function(curvature)
    if curvature == "kron" and subset == "last_layer":
        blocks_of = partial(head_kron_blocks, likelihood)
    factors = factor_pass(model, batches, blocks_of, "exact", with_gradient=True)
    mean = {name: weight.detach().clone() for name, weight in model.weights.items()}
    return Fitted(str(curvature), str(subset), seed, mean, factors)


def fitted_map(fitted: Fitted, function: TensorMap) -> Fitted:
    """The same with the function applied to every tensor."""
    factors = fitted.factors
    gradient = None if factors.gradient is None else {n: function(g) for n, g in factors.gradient.items()}
    changed = Factors(factors.curvature.map(function), function(factors.log_likelihood), gradient, factors.num_data)
    return fitted._replace(mean={n: function(m) for n, m in fitted.mean.items()}, factors=changed)


@torch.no_grad()
def posterior_shifts(curvature: Block, prior: Prior, mean: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The prior's present precisions of these weights, one shift per block, in the curvature's dtype and device."""
    precisions = prior.shifts()
    shifts = {name: precisions[name].to(curvature.device, curvature.dtype) for name in mean}
    if FULL not in curvature.blocks:
        return shifts
    return {FULL: torch.cat([shifts[name].expand(value.numel()) for name, value in mean.items()])}


def _weights(network: nn.Module, prior: Prior, batches: Batches, subset: str, seed: int) -> dict[str, nn.Parameter]:
    weights = prior.weights(network)
    if subset == "all":
        return weights
    return last_layer_weights(network, weights, next(iter(batches)).x[:1], seed)
