"""The reference network of paper 2 (Table 6), in layers that keep a symmetry to different degrees."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from ..groups import P4, Group, lift
from ..layers import (
    Conv,
    Dense,
    FactoredDense,
    FixedFrame,
    GroupConv,
    GroupPool,
    PolyphasePool,
    Relaxed,
    SparseConv,
    SparseDense,
)
from ..layers.dense import GAIN, normal_weight

VARIANTS = {
    "fc": ("fc",),
    "conv": ("conv",),
    "f-fc": ("f-fc",),
    "fc+conv": ("fc", "conv"),
    "f-fc+conv": ("f-fc", "conv"),
    "s-conv": ("s-conv",),
    "s-fc": ("s-fc",),
    "s-fc+s-conv": ("s-fc", "s-conv"),
    "f-fc+conv+gconv": ("f-fc", "conv", "gconv"),
    "gconv-full": ("gconv",),
    "gconv-separable": ("gconv",),
    "gconv-depthwise": ("gconv",),
    "gconv-pointwise": ("gconv",),
}

_WIDTHS = (1, 2, 2, 4, 4, 8, 8, 16)  # channels after each block, in units of alpha
_HALVES = (False, True, False, True, False, True, True)  # whether each block but the last halves the image
_HEAD_WIDTH = 64


class Place(NamedTuple):
    """Where a path stands: features (C, H, W) in and out, the slices of a group counted as channels."""

    in_shape: tuple[int, int, int]
    out_shape: tuple[int, int, int]
    group: Group | None
    factorization: str
    length_scale: str
    generator: torch.Generator | None


class RelaxedNetwork(nn.Module):
    """Relaxed layers with a ReLU after each, then a head: (N, c, H, W) -> (N, C).

    Arguments:
        blocks: The layers.
        head: From the last features (N, C', 1, 1) to the outputs.
        group: The group over which images are lifted first, and the head averages; None for plain features.
    """

    def __init__(self, blocks: Sequence[Relaxed], head: nn.Module, group: Group | None = None) -> None:
        super().__init__()
        self.blocks, self.head, self.group = nn.ModuleList(blocks), head, group

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _"]:
        """The outputs, (N, C)."""
        features = input if self.group is None else lift(input, self.group)
        for block in self.blocks:
            features = block(features).relu()
        outputs: Tensor = self.head(features)
        return outputs


def relaxed_network(
    variant: str,
    alpha: int,
    image_shape: tuple[int, int, int],
    num_outputs: int,
    *,
    length_scale: str = "fixed",
    generator: torch.Generator | None = None,
) -> RelaxedNetwork:
    r"""The network c-α-2α-2α-4α-4α-8α-8α-16α with 3×3 filters, ReLU and polyphase pools, head 16α-64α-C.

    Blocks 2, 4, 6 and 7 halve each side that is even; the last takes what is left to 1×1. Each block is a `Relaxed`
    with the paths of the variant, a name's parts being summed: `blocks.3.paths.conv.weight` and so on. With "gconv",
    images are lifted to the four quarter turns, all paths see four slices of each channel ("conv" in the fixed frame,
    where it commutes with shifts; "f-fc" without constraint), pools choose one grid for all slices, and the head
    averages logits over the turns. "conv" is strictly invariant to shifts, the "gconv-" variants to quarter turns
    too; each sum is, when all its other paths are off.

    Weights start normal, biases at zero, each path as its class says, so that its output has twice the second moment of
    its input (what a ReLU halves again), over the number of paths: the second moment of every block's output, of all
    variants at α = 8, is that of the images within a factor of ten, the scatter of few random filters included.

    "gconv-pointwise" is not quite "conv" averaged over the turned images, as paper 2, App. F.3, has it of layers
    without pools: there each turned copy would choose its own grid, here all slices share one.

    Arguments:
        variant: A name in `VARIANTS`. "gconv" in a sum is pointwise; "gconv-full" and so on are those of Table 7.
        alpha: The width α, 10 in the paper.
        image_shape: The channels c, the rows H and the columns W of an image.
        num_outputs: The number of outputs C.
        length_scale: What the inverse length of sparse paths is: "fixed", "weight" or "hyperparameter"; "fixed" where
            there are none.
        generator: The source of the initial weights; None leaves them to torch's global seed.
    """
    _check(variant, alpha, image_shape, num_outputs)
    _check_length_scale(variant, length_scale)
    group = P4 if "gconv" in VARIANTS[variant] else None
    size = 1 if group is None else group.size
    factorization = variant.removeprefix("gconv-") if variant.startswith("gconv-") else "pointwise"
    channels = [size * width for width in (image_shape[0], *(alpha * factor for factor in _WIDTHS))]
    rows, columns = _sides(image_shape[1]), _sides(image_shape[2])
    blocks = [
        _block(VARIANTS[variant], Place(*shapes, group, factorization, length_scale, generator))
        for shapes in pairwise(zip(channels, rows, columns, strict=True))
    ]
    head = _head(_WIDTHS[-1] * alpha, _HEAD_WIDTH * alpha, num_outputs, group, generator)
    return RelaxedNetwork(blocks, head, group)


def _check(variant: str, alpha: int, image_shape: tuple[int, int, int], num_outputs: int) -> None:
    if variant not in VARIANTS:
        raise StructureError(f"No relaxed network is called '{variant}': expected one of {', '.join(VARIANTS)}.")
    if min(alpha, num_outputs, *image_shape) < 1:
        raise ShapeError(
            "A relaxed network needs a width alpha of 1 or more, an output or more, and images that are not empty; "
            f"alpha={alpha}, {num_outputs} outputs and images of shape {image_shape} came."
        )
    if "gconv" in VARIANTS[variant] and image_shape[1] != image_shape[2]:
        raise ShapeError(
            f"'{variant}' turns images by quarters, so they must be square; {image_shape[1]}×{image_shape[2]} came. "
            "Pad them, or use a variant without gconv."
        )


def _check_length_scale(variant: str, length_scale: str) -> None:
    sparse = [name for name, paths in VARIANTS.items() if any(path.startswith("s-") for path in paths)]
    if variant not in sparse and length_scale != "fixed":
        raise StructureError(
            f"'{variant}' has no sparse path, so that its length_scale can only be 'fixed'; {length_scale!r} came. "
            f"Leave it out, or take one of {', '.join(sparse)}."
        )


def _sides(side: int) -> list[int]:
    """One side of the features before each block and after the last."""
    sides = [side]
    for halve in _HALVES:
        sides.append(sides[-1] // 2 if halve and sides[-1] % 2 == 0 else sides[-1])
    return [*sides, 1]


def _block(paths: Sequence[str], place: Place) -> Relaxed:
    (_, *before), (_, *after) = place.in_shape, place.out_shape
    stride = (before[0] // after[0], before[1] // after[1])
    pool = None if stride == (1, 1) else PolyphasePool(stride, place.group)
    return Relaxed({name: _PATHS[name](place) for name in paths}, pool)


def _dense(place: Place) -> nn.Module:
    return Dense(place.in_shape, place.out_shape, generator=place.generator)


def _factored(place: Place) -> nn.Module:
    return FactoredDense(place.in_shape, place.out_shape, generator=place.generator)


def _conv(place: Place) -> nn.Module:
    conv = Conv(place.in_shape[0], place.out_shape[0], generator=place.generator)
    return conv if place.group is None else FixedFrame(conv, place.group)


def _sparse_conv(place: Place) -> nn.Module:
    channels = place.in_shape[0], place.out_shape[0]
    return SparseConv(*channels, length_scale=place.length_scale, generator=place.generator)


def _sparse_dense(place: Place) -> nn.Module:
    shapes = place.in_shape, place.out_shape
    return SparseDense(*shapes, length_scale=place.length_scale, generator=place.generator)


def _group_conv(place: Place) -> nn.Module:
    assert place.group is not None, "a network with gconv has a group"
    channels = place.in_shape[0] // place.group.size, place.out_shape[0] // place.group.size
    return GroupConv(*channels, group=place.group, factorization=place.factorization, generator=place.generator)


_PATHS: dict[str, Callable[[Place], nn.Module]] = {
    "fc": _dense,
    "f-fc": _factored,
    "conv": _conv,
    "s-conv": _sparse_conv,
    "s-fc": _sparse_dense,
    "gconv": _group_conv,
}


def _head(
    num_inputs: int, num_hidden: int, num_outputs: int, group: Group | None, generator: torch.Generator | None
) -> nn.Sequential:
    """Two layers from features of one pixel to outputs; over a group, each slice by itself, then their mean."""
    if group is None:
        hidden, output = _linear(num_inputs, num_hidden, generator), _linear(num_hidden, num_outputs, generator)
        return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), output)
    layer = partial(GroupConv, kernel_size=1, group=group, factorization="pointwise", generator=generator)
    turns = layer(num_inputs, num_hidden), nn.ReLU(), layer(num_hidden, num_outputs), GroupPool(group)
    return nn.Sequential(*turns, nn.Flatten())


def _linear(num_inputs: int, num_outputs: int, generator: torch.Generator | None) -> nn.Linear:
    # on "meta" torch's own draw touches no random state; both tensors are then replaced
    linear = nn.Linear(num_inputs, num_outputs, device="meta")
    linear.weight = normal_weight((num_outputs, num_inputs), GAIN / math.sqrt(num_inputs), generator)
    linear.bias = nn.Parameter(torch.zeros(num_outputs))
    return linear
