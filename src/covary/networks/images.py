"""Images at the input of a network: standardize them, and check that the network accepts them."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import DataError, ShapeError


class _Moments(nn.Module):
    """A network with a mean and a deviation that are fixed, and have `num_axes` axes after theirs."""

    network: nn.Module
    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, deviation: Tensor, num_axes: int) -> None:
        super().__init__()
        if not bool((deviation > 0).all()):
            raise DataError(f"Expected standard deviations above 0, got {deviation.tolist()}.")
        self.network = network
        dtype = next((parameter.dtype for parameter in network.parameters()), torch.get_default_dtype())
        for name, moment in (("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, moment.detach().to(dtype).reshape(-1, *[1] * num_axes))

    def extra_repr(self) -> str:
        """Means and deviations, for `print`."""
        return f"mean={self.mean.flatten().tolist()}, deviation={self.deviation.flatten().tolist()}"


class Standardized(_Moments):
    r"""The network :math:`x \mapsto f((x - m) / s)` with a fixed mean m and standard deviation s for each channel.

    Standardizing is part of the network, so that an augmentation before it acts on the images themselves: black is
    0, and pixels from outside of an image are black.

    Arguments:
        network: The network f of images (N, C, H, W).
        mean: The means m, shape (C,).
        deviation: The standard deviations s above 0, shape (C,).
        num_axes: The axes of a datum after its channels: 2 of images, 1 of signals, 0 of the rows of a table.

    Example:
        >>> import torch
        >>> from covary.networks import Standardized, lenet
        >>> network = Standardized(lenet(), torch.tensor([0.13]), torch.tensor([0.31]))
        >>> network(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, network: nn.Module, mean: Float[Tensor, "C"], deviation: Float[Tensor, "C"], num_axes: int = 2
    ) -> None:
        super().__init__(network, mean, deviation, num_axes)

    def forward(self, x: Float[Tensor, "N C ..."]) -> Float[Tensor, "N K"]:
        """Outputs of the network for standardized images."""
        return self.network((x - self.mean) / self.deviation)


class Rescaled(_Moments):
    r"""The network :math:`x \mapsto m + s\, f(x)` with a fixed mean m and standard deviation s of each output.

    For regression: f predicts standardized targets, and likelihood, noise and predictions have the targets' own units.

    Arguments:
        network: The network f, (N, K) outputs.
        mean: The means m of the targets, shape (K,).
        deviation: Their standard deviations s above 0, shape (K,).

    Example:
        >>> import torch
        >>> from covary.networks import Rescaled, mlp
        >>> network = Rescaled(mlp(3, 5, 1), torch.tensor([200.0]), torch.tensor([50.0]))
        >>> network(torch.rand(2, 3)).shape
        torch.Size([2, 1])
    """

    def __init__(self, network: nn.Module, mean: Float[Tensor, "K"], deviation: Float[Tensor, "K"]) -> None:
        super().__init__(network, mean, deviation, 0)

    def forward(self, x: Float[Tensor, "N ..."]) -> Float[Tensor, "N K"]:
        """Outputs of the network in the units of the targets."""
        return self.mean + self.deviation * self.network(x)


@torch.no_grad()
def require_images(network: nn.Module, x: Float[Tensor, "N ..."], num_classes: int, name: str) -> None:
    """Raise `ShapeError` if a network does not map such images to one row of enough outputs each.

    Errors that the network raises itself are passed on; only those of torch are reworded.

    Arguments:
        num_classes: The number of classes; the network may have more outputs, not fewer.
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
            f"The network '{name}' does not accept images of shape {shape} ({reason}). Build it for this shape, or "
            "resize the images."
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(x):
        got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"type {type(outputs).__name__}"
        raise ShapeError(
            f"Expected outputs of shape ({len(x)}, number of outputs) from the network '{name}' for images of shape "
            f"{tuple(x.shape)}, got {got}. Flatten the outputs of one image into one axis."
        )
    if outputs.shape[1] < num_classes:
        raise ShapeError(
            f"Expected {num_classes} outputs (one per class) from the network '{name}', got {outputs.shape[1]}. Give "
            f"its last layer {num_classes} outputs."
        )


class _Operations(TorchFunctionMode):
    """A mode that records the exception of the last operation of torch that failed."""

    failure: Exception | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Result of the operation."""
        del types
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            self.failure = error
            raise


def _is_of_a_layer(error: Exception) -> bool:
    """Whether torch's own layers raised it: some check their inputs before any operation does."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).startswith("torch.nn.")
