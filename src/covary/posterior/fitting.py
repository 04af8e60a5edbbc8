"""One pass over the data: the mean and the curvature of the posterior."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.utils.parametrize import ParametrizationList

from .._types import SampleAveraging, TensorMap
from ..batches import Data, as_batches
from ..curvature.coverage import Use, find_uses
from ..curvature.passes import CurvatureStatistics, check_model, curvature_pass
from ..curvature.registry import KRON, BlocksFunction, Curvature, check_blocks, joined_shifts
from ..errors import StructureError, UnsupportedLayerError
from ..linalg import Block
from ..models import Model
from .head import head_kron_blocks

CURVATURES = (*KRON, "full", "diag")
SUBSETS = ("all", "last_layer")
Subset = Literal["all", "last_layer"]


class Fitted(NamedTuple):
    r"""The posterior :math:`N(\theta, (H + \delta)^{-1})` after a pass over all data."""

    curvature: str  # the structure of H, "kron", "kron-traced", "kron-shared", "full" or "diag"
    subset: str  # the weights, "all" or "last_layer"
    seed: int  # the seed of an averaged network's noise
    mean: Mapping[str, Tensor]  # the weights θ by name
    statistics: CurvatureStatistics  # the curvature H, log-likelihood and gradient; sums over data


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
    batches = as_batches(data).matching(model.network)
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


def run(network: nn.Module, x: Tensor, index: Tensor, seed: int, state: dict[str, Tensor] | None = None) -> Tensor:
    """Outputs (N, C) with some parameters replaced; an averaged network also gets identities and its seed."""
    arguments = {"index": index, "seed": seed} if isinstance(network, SampleAveraging) else {}
    return torch.func.functional_call(network, state or {}, (x,), arguments)


def last_layer_weights(model: Model, x: Tensor, seed: int) -> list[str]:
    """The names of the weights of the module that is called last, of those that hold weights and reach the outputs.

    The order is that of calls in a forward pass, not that of definition; a call whose result is not used does not
    count.
    """
    network = model.network
    uses = find_uses(network, model.weights)
    calls: list[tuple[nn.Module, GradientEdge]] = []

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        del args
        first = output[0] if isinstance(output, tuple | list) else output
        if isinstance(first, Tensor) and first.requires_grad:
            calls.append((module, get_gradient_edge(first)))

    with ExitStack() as stack, torch.enable_grad():
        for module in {_owner(network, use) for found in uses.values() for use in found}:
            stack.callback(module.register_forward_hook(hook, prepend=True).remove)
        outputs = run(network, x, torch.arange(len(x), device=x.device), seed)
    edges = [edge for _, edge in calls]
    gradients = torch.autograd.grad(outputs, edges, torch.ones_like(outputs), allow_unused=True) if edges else ()
    reached = [module for (module, _), gradient in zip(calls, gradients, strict=True) if gradient is not None]
    if not reached:
        raise UnsupportedLayerError(
            "Expected a module with weights of the prior that is called on the way to the outputs, got none. Cover the "
            "last layer by the prior, or use subset='all'."
        )
    # a module that calls another one ends after it
    inner = [module for module in reached if not any(other in reached for other in list(module.modules())[1:])]
    last = set(inner[-1].modules())  # attention calls its output layer by hand, so that no hook of it fires
    return [name for name, found in uses.items() if any(use.module in last for use in found)]


def _owner(network: nn.Module, use: Use) -> nn.Module:
    """The module that a weight belongs to: of a parametrization, the one whose weight it computes."""
    owner = use.module_name.partition("parametrizations.")[0] if isinstance(use.module, ParametrizationList) else None
    return use.module if owner is None else network.get_submodule(owner.rstrip("."))
