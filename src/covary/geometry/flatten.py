"""A network as a function of one flat vector: its weights, one after the other, in the order of their names."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from .._types import SampleAveraging, Weights
from ..errors import ShapeError
from ..priors import weights_of


def flatten(weights: Weights) -> Float[Tensor, " P"]:
    """The flat vector θ of named weights, in their order."""
    return torch.cat([weight.flatten() for weight in weights.values()])


def unflatten(theta: Float[Tensor, " P"], weights: Weights) -> dict[str, Tensor]:
    """The named weights of a flat vector θ, in the names, order and shapes of `weights`."""
    sizes = [weight.numel() for weight in weights.values()]
    if len(theta) != sum(sizes):
        raise ShapeError(
            f"The {len(sizes)} weights have {sum(sizes)} entries; a vector of {len(theta)} came. Flatten the same "
            "weights."
        )
    return {n: part.view_as(w) for (n, w), part in zip(weights.items(), theta.split(sizes), strict=True)}


def flat_outputs(
    network: nn.Module, x: Tensor, *, index: Tensor | None = None, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """The function from the flat vector θ of all weights, (P,), to the outputs on these inputs, (N, C).

    Arguments:
        network: The network, averaged or plain; all else it holds stays as it is.
        x: The inputs.
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        seed: The seed of that noise.
    """
    weights = weights_of(network)
    arguments = {"index": index, "seed": seed} if isinstance(network, SampleAveraging) else {}
    return lambda theta: functional_call(network, unflatten(theta, weights), (x,), arguments)
