r"""A full matrix, which has no symmetry, and a convolution, which is equivariant to shifts.

Features are (N, C, H, W). Initial weights are normal with variance 2 / fan-in, biases zero, so that layers followed by
a ReLU keep the second moment of the features.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from ..groups import Group

GAIN = math.sqrt(2)  # a ReLU halves the second moment


class Dense(nn.Module):
    r"""Fully connected map :math:`y = W x + b` of whole feature maps (FC), with one bias per output unit.

    Arguments:
        in_shape: The input's (C, H, W).
        out_shape: The output's (C', H', W').
        generator: The source of the initial weights; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.layers import Dense
        >>> Dense((3, 8, 8), (4, 4, 4))(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 4, 4, 4])
    """

    added_after_pool = True  # `Relaxed` adds its output to that of the pool

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
        """Output features, (N, C', H', W')."""
        check_features(input, self.in_shape, "Dense")
        return nn.functional.linear(input.flatten(1), self.weight, self.bias).unflatten(1, self.out_shape)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.weight.mul_(factor)
        self.bias.mul_(factor)

    def extra_repr(self) -> str:
        """Shapes, for `print`."""
        return f"{self.in_shape} -> {self.out_shape}"


class Conv(nn.Conv2d):
    r"""Convolution with circular padding and stride 1 (CONV), which commutes with every shift.

    Arguments:
        in_channels: The number C of input channels.
        out_channels: The number C' of output channels.
        kernel_size: The side of the square filter.
        generator: The source of the initial weights; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.layers import Conv
        >>> conv, x = Conv(1, 2), torch.rand(1, 1, 8, 8)
        >>> torch.allclose(conv(x.roll(1, -1)), conv(x).roll(1, -1), atol=1e-6)
        True
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
        # not `forward`: curvature rules of nn.Conv2d apply to subclasses that do not override it
        check_channels(input, self.in_channels, "Conv")
        check_reach(input, self.kernel_size[0])
        return super()._conv_forward(input, weight, bias)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.weight.mul_(factor)
        self.bias.mul_(factor)  # type: ignore[union-attr]


def normal_weight(shape: Sequence[int], scale: float, generator: torch.Generator | None) -> nn.Parameter:
    """Independent normal weights of mean zero and standard deviation `scale`."""
    return nn.Parameter(scale * torch.randn(*shape, generator=generator))


def pad_circular(features: Float[Tensor, "N C _ _"], kernel_size: int) -> Float[Tensor, "N C _ _"]:
    """Features padded circularly for a filter of that size, as in `Conv`."""
    check_reach(features, kernel_size)
    before = (kernel_size - 1) // 2
    after = kernel_size - 1 - before
    return nn.functional.pad(features, (before, after, before, after), mode="circular")


def check_features(features: Float[Tensor, "..."], shape: tuple[int, ...], layer: str) -> None:
    """Raise `ShapeError` if features are not of this (C, H, W)."""
    if features.shape[1:] != shape:
        raise ShapeError(
            f"{layer} expected features of shape (N, {', '.join(map(str, shape))}), got {tuple(features.shape)}. "
            "Make the layer with the shape of its inputs."
        )


def check_rank(features: Float[Tensor, "..."], layer: str) -> None:
    """Raise `ShapeError` if features are not a batch of feature maps."""
    if features.ndim != 4:
        raise ShapeError(
            f"{layer} expected a batch of feature maps, (N, C, H, W), got {tuple(features.shape)}. Pass x[None] for a "
            "single map, x[:, :, None, None] for vectors."
        )


def check_channels(features: Float[Tensor, "..."], channels: int, layer: str) -> None:
    """Raise `ShapeError` if features do not have that number of channels."""
    if features.ndim != 4 or features.shape[1] != channels:
        raise ShapeError(
            f"{layer} expected features of shape (N, {channels}, H, W), got {tuple(features.shape)}. Make the layer "
            "with the number of channels of its inputs."
        )


def check_slices(features: Float[Tensor, "..."], group: Group, layer: str, advice: str) -> None:
    """Raise `ShapeError` if the channels of feature maps are no multiple of the size of a group."""
    check_rank(features, layer)
    if features.shape[1] % group.size:
        raise ShapeError(
            f"{layer} over {group} expected a multiple of {group.size} channels, got {tuple(features.shape)}. {advice}"
        )


def check_reach(features: Float[Tensor, "..."], kernel_size: int) -> None:
    """Raise `ShapeError` if a filter would wrap around an image more than once."""
    if kernel_size // 2 > min(features.shape[-2:]):
        raise ShapeError(
            f"Expected images of at least {kernel_size // 2} pixels per side for a filter of "
            f"{kernel_size}×{kernel_size}, got {features.shape[-2]}×{features.shape[-1]}. Use a smaller filter."
        )


def check_shapes(layer: str, in_shape: Sequence[int], out_shape: Sequence[int]) -> None:
    """Raise `ShapeError` if shapes are not (C, H, W) of 1 or more each."""
    for shape in (in_shape, out_shape):
        if len(shape) != 3:
            raise ShapeError(
                f"{layer} expected a shape (C, H, W), got {tuple(shape)}. Leave out the batch; a vector is (C, 1, 1)."
            )
    check_sizes(layer, (*in_shape, *out_shape))


def check_sizes(layer: str, sizes: Sequence[int]) -> None:
    """Raise `ShapeError` if a size is below 1."""
    if min(sizes) < 1:
        raise ShapeError(f"{layer} expected channels and sides of 1 or more, got {', '.join(map(str, sizes))}.")
