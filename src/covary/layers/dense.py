r"""The two ends between which layers relax: a full matrix that keeps no symmetry, and a convolution that keeps shifts.

Features are (N, C, H, W). Initial weights are normal with variance 2 / fan-in, biases zero: behind a ReLU the second
moment of the features then stays what it was.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError

GAIN = math.sqrt(2)  # a ReLU halves the second moment


class Dense(nn.Module):
    r"""The fully connected map :math:`y = W x + b` of whole feature maps (FC), with one bias per output unit.

    Arguments:
        in_shape: The input's (C, H, W).
        out_shape: The output's (C', H', W').
        generator: The source of the initial weights; torch's own by default.
    """

    onto_pooled_grid = True  # `Relaxed` adds its output to what the pool gives out

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_shapes("Dense", in_shape, out_shape)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        num_inputs, num_outputs = math.prod(in_shape), math.prod(out_shape)
        self.weight = normal_weight((num_outputs, num_inputs), GAIN / math.sqrt(num_inputs), generator)
        self.bias = nn.Parameter(torch.zeros(num_outputs))

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """The output features, (N, C', H', W')."""
        check_features(input, self.in_shape, "Dense")
        return nn.functional.linear(input.flatten(1), self.weight, self.bias).unflatten(1, self.out_shape)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.weight.mul_(factor)
        self.bias.mul_(factor)

    def extra_repr(self) -> str:
        """Shapes, for `print`."""
        return f"{self.in_shape} -> {self.out_shape}"


class Conv(nn.Conv2d):
    r"""The convolution with circular padding and stride 1 (CONV): it keeps H and W, and commutes with every shift.

    Arguments:
        in_channels: The number C of input channels.
        out_channels: The number C' of output channels.
        kernel_size: The side of the square filter.
        generator: The source of the initial weights; torch's own by default.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int = 3, *, generator: torch.Generator | None = None
    ) -> None:
        check_sizes("Conv", (in_channels, out_channels, kernel_size))
        # on "meta" torch's own draw touches no random state; both tensors are then replaced
        super().__init__(in_channels, out_channels, kernel_size, padding="same", padding_mode="circular", device="meta")
        self.weight = normal_weight(self.weight.shape, GAIN / math.sqrt(in_channels * kernel_size**2), generator)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # not `forward`: curvature rules of nn.Conv2d hold for a class that keeps its forward
        check_channels(input, self.in_channels, "Conv")
        check_reach(input, self.kernel_size[0])
        return super()._conv_forward(input, weight, bias)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.weight.mul_(factor)
        self.bias.mul_(factor)  # type: ignore[union-attr]


def normal_weight(shape: Sequence[int], scale: float, generator: torch.Generator | None) -> nn.Parameter:
    """Independent normal weights of mean zero and standard deviation `scale`."""
    return nn.Parameter(scale * torch.randn(*shape, generator=generator))


def pad_circular(features: Float[Tensor, "N C _ _"], kernel_size: int) -> Float[Tensor, "N C _ _"]:
    """The features with as much of their other end around them as a filter of that size reaches, as in `Conv`."""
    check_reach(features, kernel_size)
    before = (kernel_size - 1) // 2
    after = kernel_size - 1 - before
    return nn.functional.pad(features, (before, after, before, after), mode="circular")


def check_features(features: Float[Tensor, "..."], shape: tuple[int, ...], layer: str) -> None:
    """Nothing, or what a layer that was made for features of this (C, H, W) got instead."""
    if features.shape[1:] != shape:
        raise ShapeError(
            f"{layer} was made for features of shape (N, {', '.join(map(str, shape))}); {tuple(features.shape)} came. "
            "Make the layer with the shape of the features in front of it."
        )


def check_rank(features: Float[Tensor, "..."], layer: str) -> None:
    """Nothing, or what a layer for batches of feature maps got instead."""
    if features.ndim != 4:
        raise ShapeError(
            f"{layer} expects a batch of feature maps, (N, C, H, W); {tuple(features.shape)} came. Pass x[None] for a "
            "map that is alone, x[:, :, None, None] for vectors."
        )


def check_channels(features: Float[Tensor, "..."], channels: int, layer: str) -> None:
    """Nothing, or what a layer that was made for so many channels got instead."""
    if features.ndim != 4 or features.shape[1] != channels:
        raise ShapeError(
            f"{layer} was made for features of shape (N, {channels}, H, W); {tuple(features.shape)} came. Make the "
            "layer with the number of channels in front of it."
        )


def check_reach(features: Float[Tensor, "..."], kernel_size: int) -> None:
    """Nothing, or an error where a filter would reach around a whole image and back to where it stands."""
    if kernel_size // 2 > min(features.shape[-2:]):
        raise ShapeError(
            f"A filter of {kernel_size}×{kernel_size} pixels reaches {kernel_size // 2} to a side, around an image of "
            f"{features.shape[-2]}×{features.shape[-1]} more than once. Take a smaller filter."
        )


def check_shapes(layer: str, in_shape: Sequence[int], out_shape: Sequence[int]) -> None:
    """Nothing, or an error for a layer between what are no feature maps, (C, H, W) of 1 or more each."""
    for shape in (in_shape, out_shape):
        if len(shape) != 3:
            raise ShapeError(
                f"{layer} maps features of a shape (C, H, W) to others; {tuple(shape)} came. Give three numbers, the "
                "batch not counted; a vector is (C, 1, 1)."
            )
    check_sizes(layer, (*in_shape, *out_shape))


def check_sizes(layer: str, sizes: Sequence[int]) -> None:
    """Nothing, or an error for a layer without channels, pixels or filter."""
    if min(sizes) < 1:
        raise ShapeError(
            f"{layer} needs channels and sides of 1 or more; {', '.join(map(str, sizes))} came. Pass positive numbers."
        )
