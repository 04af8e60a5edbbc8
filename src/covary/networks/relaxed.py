"""The reference network of paper 2 (Table 6), with layers that are equivariant to different degrees."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._text import require_choice
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
from ..layers.sparse import LENGTH_SCALES as LENGTH_SCALES
from .recipes import recorded

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


class PathShape(NamedTuple):
    """Features (C, H, W) before and after a path, the slices of a group counted as channels, and its settings."""

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
        head: The map from the last features (N, C', 1, 1) to the outputs.
        group: The group to which images are lifted first, and over which the head averages; None for plain features.

    Example:
        >>> from torch import nn
        >>> from covary.layers import Conv, Dense, Relaxed
        >>> from covary.networks import RelaxedNetwork
        >>> block = Relaxed({"fc": Dense((1, 1, 1), (4, 1, 1)), "conv": Conv(1, 4, 1)})
        >>> network = RelaxedNetwork([block], nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    """

    def __init__(self, blocks: Sequence[Relaxed], head: nn.Module, group: Group | None = None) -> None:
        super().__init__()
        self.blocks, self.head, self.group = nn.ModuleList(blocks), head, group

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _"]:
        """Outputs, (N, C)."""
        features = input if self.group is None else lift(input, self.group)
        for block in self.blocks:
            features = block(features).relu()
        return self.head(features)


@recorded
def relaxed_network(
    variant: str,
    alpha: int,
    image_shape: tuple[int, int, int],
    num_outputs: int,
    *,
    length_scale: str = "fixed",
    generator: torch.Generator | None = None,
) -> RelaxedNetwork:
    r"""Network c-α-2α-2α-4α-4α-8α-8α-16α with 3×3 filters, ReLU and polyphase pools, head 16α-64α-C.

    Blocks 2, 4, 6 and 7 halve each even side; the last reduces it to 1×1. Each block is a `Relaxed` with the paths of
    the variant, whose names are joined by "+": `blocks.3.paths.conv.weight` and so on. With "gconv", images are lifted
    to the four quarter turns, all paths have four slices of each channel ("conv" in the fixed frame, where it commutes
    with shifts; "f-fc" without constraint), pools select one grid for all slices, and the head averages logits over
    the turns. "conv" is exactly invariant to shifts, the "gconv-" variants to quarter turns too; a sum is when all its
    other paths are zero.

    Initial weights are normal, biases zero, so that the second moment of every block's output equals that of the images
    within a factor of ten (all variants at α = 8).

    "gconv-pointwise" differs from "conv" averaged over the turned images (paper 2, App. F.3, for layers without pools):
    there each turned image would select its own grid, here all slices share one.

    Arguments:
        variant: "fc", "conv", "f-fc", "s-fc", "s-conv", a sum "fc+conv", "f-fc+conv", "s-fc+s-conv" or
            "f-fc+conv+gconv" (pointwise), or "gconv-full", "-separable", "-depthwise", "-pointwise" (Table 7).
        alpha: The width α, 10 in the paper.
        image_shape: The channels c, height H and width W of an image.
        num_outputs: The number of outputs C.
        length_scale: The inverse length of sparse paths: "fixed", "weight" or "hyperparameter"; "fixed" without any.
        generator: The source of the initial weights; None uses torch's global seed.

    Example:
        >>> import torch
        >>> from covary.networks import relaxed_network
        >>> network = relaxed_network("f-fc+conv", 2, (1, 16, 16), num_outputs=10)
        >>> list(network.blocks[0].paths), network(torch.rand(3, 1, 16, 16)).shape
        (['f-fc', 'conv'], torch.Size([3, 10]))
    """
    _check(variant, alpha, image_shape, num_outputs)
    sparse = [name for name, paths in VARIANTS.items() if any(path.startswith("s-") for path in paths)]
    if variant not in sparse and length_scale != "fixed":
        raise StructureError(
            f"Expected length_scale='fixed' for '{variant}', which has no sparse path, got {length_scale!r}. "
            f"Leave it out, or use one of {', '.join(sparse)}."
        )
    group = P4 if "gconv" in VARIANTS[variant] else None
    size = 1 if group is None else group.size
    factorization = variant.removeprefix("gconv-") if variant.startswith("gconv-") else "pointwise"
    channels = [size * width for width in (image_shape[0], *(alpha * factor for factor in _WIDTHS))]
    rows, columns = _sides(image_shape[1]), _sides(image_shape[2])
    blocks = [
        _block(VARIANTS[variant], PathShape(*shapes, group, factorization, length_scale, generator))
        for shapes in pairwise(zip(channels, rows, columns, strict=True))
    ]
    head = _head(_WIDTHS[-1] * alpha, _HEAD_WIDTH * alpha, num_outputs, group, generator)
    return RelaxedNetwork(blocks, head, group)


def _check(variant: str, alpha: int, image_shape: tuple[int, int, int], num_outputs: int) -> None:
    require_choice("a variant", variant, VARIANTS)
    if min(alpha, num_outputs, *image_shape) < 1:
        raise ShapeError(
            "Expected a width alpha of 1 or more, an output or more, and images that are not empty, got "
            f"alpha={alpha}, {num_outputs} outputs and images of shape {image_shape}."
        )
    if "gconv" in VARIANTS[variant] and image_shape[1] != image_shape[2]:
        raise ShapeError(
            f"Expected square images for the quarter turns of '{variant}', got {image_shape[1]}×{image_shape[2]}. "
            "Pad them, or use a variant without gconv."
        )


def _sides(side: int) -> list[int]:
    """One side of the features before each block and after the last."""
    sides = [side]
    for halve in _HALVES:
        sides.append(sides[-1] // 2 if halve and sides[-1] % 2 == 0 else sides[-1])
    return [*sides, 1]


def _block(paths: Sequence[str], shape: PathShape) -> Relaxed:
    (_, *before), (_, *after) = shape.in_shape, shape.out_shape
    stride = (before[0] // after[0], before[1] // after[1])
    pool = None if stride == (1, 1) else PolyphasePool(stride, shape.group)
    return Relaxed({name: _PATHS[name](shape) for name in paths}, pool)


def _conv(shape: PathShape) -> nn.Module:
    conv = Conv(shape.in_shape[0], shape.out_shape[0], generator=shape.generator)
    return conv if shape.group is None else FixedFrame(conv, shape.group)


def _group_conv(shape: PathShape) -> nn.Module:
    assert shape.group is not None, "a network with gconv has a group"
    channels = shape.in_shape[0] // shape.group.size, shape.out_shape[0] // shape.group.size
    return GroupConv(*channels, group=shape.group, factorization=shape.factorization, generator=shape.generator)


_PATHS: dict[str, Callable[[PathShape], nn.Module]] = {
    "fc": lambda path: Dense(path.in_shape, path.out_shape, generator=path.generator),
    "f-fc": lambda path: FactoredDense(path.in_shape, path.out_shape, generator=path.generator),
    "conv": _conv,
    "s-conv": lambda path: SparseConv(
        path.in_shape[0], path.out_shape[0], length_scale=path.length_scale, generator=path.generator
    ),
    "s-fc": lambda path: SparseDense(
        path.in_shape, path.out_shape, length_scale=path.length_scale, generator=path.generator
    ),
    "gconv": _group_conv,
}


def _head(
    num_inputs: int, num_hidden: int, num_outputs: int, group: Group | None, generator: torch.Generator | None
) -> nn.Sequential:
    """Two layers from features of one pixel to outputs; over a group, applied to each slice, then averaged."""
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
