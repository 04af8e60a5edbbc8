r"""Subsampling that commutes with shifts, because the grid is selected by the image.

The phases of an image under a stride (s, t) are its s·t subsampled grids; phase (i, j), number i·t + j, is
``x[..., i::s, j::t]``. A circular shift permutes the phases, and shifts each by whole pixels of its coarse grid; a
quarter turn permutes and turns them.
"""

from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._types import WITHOUT_FLOAT64
from ..errors import ShapeError, StructureError
from ..groups import Group
from .dense import check_rank

TIE = 1e-9  # relative difference of maxima below which phases tie
REPEATS = (2, 3)  # repetitions of the table of phases, on which the action of a group is tested
ROUNDING = 64  # the same in machine epsilons, if that is more: rounding errors of the layers before the pool


class PolyphasePool(nn.Module):
    r"""Largest phase of each example, (N, C, H, W) -> (N, C, H/s, W/t) (paper 2, App. F.2).

    One phase per example, shared by its channels and independent of the batch: the one of the largest
    :math:`\max |x|`; among those within 1e-9 of it (in single precision 7.6e-6, 64 machine epsilons) the one of the
    largest :math:`\sum x^2`; then the first. The selection has no gradient, the selected pixels do.

    So pool(shift x) is pool(x) up to a shift by whole coarse pixels, and with equal strides pool(turn x) is turn
    pool(x) likewise. Saturated pixels and constant backgrounds make several maxima equal up to rounding; these tie, and
    their sums of squares, in double precision, decide. Rounding decides only at the threshold of a tie, and between
    tied phases with equal sums of squares. The latter matters for an image that is its own mirror image, or its own
    turn, about an axis between pixels: its phases are mirrored or turned versions of one another. Features of
    asymmetric filters are not such images, and if all that follows is invariant under the same turn, logits do not
    depend on the selection.

    Over a group, slice h is turned back by h, so one grid of the image is another phase of each slice: :math:`h`,
    acting on the s×t table of phase numbers, maps the slice's phase to the image's. All slices share one grid of the
    image, and the pool commutes with the group, which must act on phases as on pixels, as symmetries of the square do.

    Arguments:
        stride: The stride of both axes, or (s, t); it must divide H and W.
        group: The group of features (N, C·|G|, H, W); None for plain ones.

    Example:
        >>> import torch
        >>> from covary.layers import PolyphasePool
        >>> PolyphasePool(2)(torch.arange(16.0).view(1, 1, 4, 4)).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    phases: Int[Tensor, "G P"]  # the phase of slice h that each phase of the image is

    def __init__(self, stride: int | tuple[int, int], group: Group | None = None) -> None:
        super().__init__()
        self.stride = (stride, stride) if isinstance(stride, int) else stride
        self.group = group
        if min(self.stride) < 1:
            raise ShapeError(f"Expected a stride of 1 or more, got {stride}. Pass for example 2, or (2, 1).")
        numbers = torch.arange(self.stride[0] * self.stride[1]).view(self.stride)
        self.register_buffer("phases", _turned(numbers, group), persistent=False)
        if group is not None:
            _check_action(self.stride, group)

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ _ _"]:
        """Pooled features, (N, C, H/s, W/t)."""
        self._check(input)
        (height, width), (down, across) = input.shape[2:], self.stride
        slices = input.unflatten(1, (-1, len(self.phases)))  # (N, C, G, H, W)
        chosen = self.phases[:, self._choice(slices.detach())].T
        corners = chosen // across * width + chosen % across  # (N, G)
        down_steps = torch.arange(0, height, down, device=input.device)
        steps = down_steps[:, None] * width + torch.arange(0, width, across, device=input.device)
        # expanded, not repeated, over channels: each example reads its own strided grid only
        index = (corners[:, None, :, None] + steps.flatten()).expand(-1, slices.shape[1], -1, -1)
        return slices.flatten(3).gather(3, index).unflatten(3, tuple(steps.shape)).flatten(1, 2)

    def _choice(self, slices: Float[Tensor, "N C G H W"]) -> Int[Tensor, " N"]:
        """Number of each example's phase, as a phase of the image."""
        numbers = self.phases.expand(len(slices), -1, -1)
        maxima = _grids(slices.abs().amax(1), self.stride).amax(3).gather(2, numbers).amax(1)
        squares = _grids(_squares(slices), self.stride).sum(3).gather(2, numbers).sum(1)
        tie = max(TIE, ROUNDING * torch.finfo(slices.dtype).eps)
        # nan is not below any number, and argmax selects it: it is passed on
        below = maxima < (1 - tie) * maxima.amax(1, keepdim=True)
        return squares.masked_fill(below, -1.0).argmax(1)

    def _check(self, features: Tensor) -> None:
        check_rank(features, "PolyphasePool")
        channels, *size = features.shape[1:]
        if any(side % step for side, step in zip(size, self.stride, strict=True)):
            raise ShapeError(
                f"PolyphasePool expected a height and width that its stride {self.stride} divides, got "
                f"{tuple(features.shape)}. Pad the features, or use stride 1 on an odd axis."
            )
        if channels % len(self.phases):
            raise ShapeError(
                f"PolyphasePool over {self.group} expected a multiple of {len(self.phases)} channels, got "
                f"{tuple(features.shape)}. Lift images first, or leave out the group."
            )

    def extra_repr(self) -> str:
        """Stride and group, for `print`."""
        return f"stride={self.stride}" + ("" if self.group is None else f", {self.group}")


def _squares(slices: Float[Tensor, "N C G H W"]) -> Float[Tensor, "N G H W"]:
    """Sums of squares over channels, in double precision where the device has it."""
    dtype = slices.dtype if slices.device.type in WITHOUT_FLOAT64 else torch.float64
    total = slices.new_zeros(len(slices), *slices.shape[2:], dtype=dtype)
    for channel in slices.unbind(1):  # one by one: all features in double precision exceed the cache
        wide = channel.to(dtype)
        total.addcmul_(wide, wide)
    return total


def _grids(maps: Float[Tensor, "N G H W"], stride: tuple[int, int]) -> Float[Tensor, "N G P X"]:
    """Pixels of each phase, in the order of phase numbers."""
    down, across = stride
    split = maps.unflatten(3, (-1, across)).unflatten(2, (-1, down))
    return split.permute(0, 1, 3, 5, 2, 4).flatten(4, 5).flatten(2, 3)


def _turned(numbers: Int[Tensor, "s t"], group: Group | None) -> Int[Tensor, "G P"]:
    """Table of phase numbers under each element."""
    if group is None:
        return numbers.flatten()[None]
    try:
        turned = torch.stack([group.act(numbers, element) for element in range(group.size)])
    except (ShapeError, RuntimeError) as error:
        raise ShapeError(
            f"PolyphasePool over {group} expected equal strides, since its elements exchange rows and columns, got "
            f"{tuple(numbers.shape)}."
        ) from error
    return turned.flatten(1)


def _check_action(stride: tuple[int, int], group: Group) -> None:
    """Raise `StructureError` if a group does not act on the phases of larger images as on those of the smallest."""
    numbers = torch.arange(stride[0] * stride[1], device="cpu").view(stride)  # "meta" tensors have no values to compare
    for element, number in product(range(group.size), REPEATS):
        table = group.act(numbers, element).repeat(number, number)
        if not torch.equal(group.act(numbers.repeat(number, number), element), table):
            raise StructureError(
                f"PolyphasePool expected a group that acts on phases as on pixels, as turns do, got {group}. "
                "Pool without the group, or over symmetries of the square."
            )
