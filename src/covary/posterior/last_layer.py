"""The weights of the last layer."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .._types import SampleAveraging
from ..curvature.coverage import find_uses
from ..errors import UnsupportedLayerError
from ..models import Model


def run(network: nn.Module, x: Tensor, index: Tensor, seed: int, state: dict[str, Tensor] | None = None) -> Tensor:
    """Outputs (N, C) with some parameters replaced; an averaged network also gets identities and its seed."""
    arguments = {"index": index, "seed": seed} if isinstance(network, SampleAveraging) else {}
    outputs: Tensor = torch.func.functional_call(network, state or {}, (x,), arguments)
    return outputs


def last_layer_weights(model: Model, x: Tensor, seed: int) -> list[str]:
    """The names of the weights of the module that is called last, of those that hold weights and reach the outputs.

    Order is that of calls in a forward pass, not that of definition; a call whose result is thrown away does not
    count.

    Arguments:
        model: The model.
        x: Some inputs.
        seed: The seed of an averaged network's noise.
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
        for module in {use.module for found in uses.values() for use in found}:
            stack.callback(module.register_forward_hook(hook, prepend=True).remove)
        outputs = run(network, x, torch.arange(len(x), device=x.device), seed)
    edges = [edge for _, edge in calls]
    gradients = torch.autograd.grad(outputs, edges, torch.ones_like(outputs), allow_unused=True) if edges else ()
    reached = [module for (module, _), gradient in zip(calls, gradients, strict=True) if gradient is not None]
    if not reached:
        raise UnsupportedLayerError(
            "subset='last_layer' needs a module that holds weights of the prior and is called on the way to the "
            "outputs; there is none. Cover the last layer by the prior, or use subset='all'."
        )
    # attention calls its output layer by hand, so that no hook of it fires
    last = set(reached[-1].modules()) if isinstance(reached[-1], nn.MultiheadAttention) else {reached[-1]}
    return [name for name, found in uses.items() if any(use.module in last for use in found)]
