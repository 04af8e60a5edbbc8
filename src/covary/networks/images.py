"""Can a network take the images that it is to be trained on?"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import ShapeError


@torch.no_grad()
def require_images(network: nn.Module, x: Float[Tensor, "N c H W"], num_classes: int, name: str) -> None:
    """Nothing, or an error for a network that cannot take such images, or has no row per image of enough outputs.

    What the network raises for reasons of its own is raised as it is: only what torch refuses is said in other words.

    Arguments:
        network: The network, (N, c, H, W) -> (N, C).
        x: One image or a few.
        num_classes: The number of classes, each of which needs an output; more outputs do no harm.
        name: What the user calls the network.
    """
    shape, operations = tuple(x.shape[1:]), _Operations()
    try:
        with operations:
            outputs = network(x)
    except Exception as error:
        if error is not operations.failure and not _is_of_a_layer(error):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ShapeError(
            f"The network '{name}' cannot take images of shape {shape} ({reason}). Build it for this shape, or "
            "resample the images to the one that it takes."
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(x):
        came = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"type {type(outputs).__name__}"
        raise ShapeError(
            f"The network '{name}' gave outputs of {came} for images of shape {tuple(x.shape)}; expected a tensor "
            f"({len(x)}, number of outputs). Flatten the outputs of one image into one axis."
        )
    if outputs.shape[1] < num_classes:
        raise ShapeError(
            f"The network '{name}' has {outputs.shape[1]} outputs, and the data {num_classes} classes; expected an "
            f"output for each. Give its last layer {num_classes} outputs."
        )


class _Operations(TorchFunctionMode):
    """The operations of torch in a pass; what the last one that failed raised."""

    failure: Exception | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the operation returns."""
        del types
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            self.failure = error
            raise


def _is_of_a_layer(error: Exception) -> bool:
    """Whether torch's own layers raised it: some look at their inputs before any operation does."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).startswith("torch.nn.")
