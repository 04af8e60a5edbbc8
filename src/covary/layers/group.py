r"""Convolutions over a finite group and the plane, equivariant to both.

With features in the turned frame of `groups/finite.py`, where slice h is the image turned back by h, the group
convolution is

.. math:: y'_h = \sum_u w[u] * (u\, x'_{hu}) + b,

u running over the group and * the plain circular convolution (paper 2, App. A, over shifts and elements). An element
t of the group acts on features by permuting slices, :math:`(t x)'_h = x'_{t^{-1} h}`, no pixel moves; slices enter by
:math:`hu` alone, so outputs are permuted alike. A shift by v moves slice h by :math:`h^{-1} v`; :math:`u` brings
slice :math:`hu` into the frame of slice h, so outputs move alike. With :math:`w[u] = 0` off the identity, *pointwise*,
this is the plain convolution of each turned image, and logits averaged over the group are those of the plain network
averaged over the turned inputs. (With a polyphase pool the two differ: the average selects a grid for each turned
input, `PolyphasePool` over the group one grid of the image for all slices. Without a group that pool selects one phase
for all channels, which is another grid of the image in each turned slice and breaks shift equivariance.)

A layer that treats slices as plain channels (`Conv` on C·|G| channels) commutes with shifts only in the fixed frame,
where all slices move alike: `groups.turn_slices` converts between the two.

Fully connected layers over the group are `FactoredDense(..., group=group)`, with positions :math:`(h, p)` of element
and pixel, and `Dense` on C·|G| channels.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ShapeError, StructureError
from ..groups import Group, lift, turn_slices
from ..groups.finite import align
from .dense import GAIN, check_rank, check_sizes, check_slices, normal_weight, pad_circular

FACTORIZATIONS = ("full", "separable", "depthwise", "pointwise")


class Filter(NamedTuple):
    """Filter of one stage: channels in and out, side, whether it is over the group, and whether it is depthwise."""

    in_channels: int
    out_channels: int
    kernel_size: int = 1
    over_group: bool = False
    depthwise: bool = False


class GroupConv(nn.Module):
    r"""Group convolution of features (N, C·|G|, H, W) -> (N, C'·|G|, H, W): circular padding, stride 1.

    Weights by factorization (paper 2, Table 7), one stage after the other, each with a bias per channel:

    - "full": `kernel` (C', C, |G|, k, k);
    - "separable": `spatial` (C, 1, k, k), channel by channel, then `mixing` (C', C, |G|, 1, 1);
    - "depthwise": `spatial` (C, 1, k, k) and `turns` (C, 1, |G|, 1, 1), both channel by channel, then `mixing`
      (C', C, 1, 1);
    - "pointwise": `kernel` (C', C, k, k), not over the group; with `kernel_size=1` a layer of a head.

    Initial weights are normal with variance 2 / fan-in in the last stage and 1 / fan-in before it, biases zero, so that
    the layer and a ReLU keep the second moment of the features.

    Arguments:
        in_channels: The number C of input channels, the group not counted.
        out_channels: The number C' of output channels, the group not counted.
        kernel_size: The side k of the square filter.
        group: The group, such as `covary.groups.P4`.
        factorization: "full", "separable", "depthwise" or "pointwise".
        lift: Whether inputs are plain images (N, C, H, W), to be lifted first.
        generator: The source of the initial weights; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.groups import P4
        >>> from covary.layers import GroupConv
        >>> GroupConv(1, 8, group=P4, lift=True)(torch.rand(2, 1, 6, 6)).shape  # 8 channels of 4 slices
        torch.Size([2, 32, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        *,
        group: Group,
        factorization: str = "full",
        lift: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GroupConv", (in_channels, out_channels, kernel_size))
        self.in_channels, self.group, self.factorization, self.lift = in_channels, group, factorization, lift
        filters = _filters(in_channels, out_channels, kernel_size, factorization)
        self.stages = nn.Sequential()
        for number, (name, shape) in enumerate(filters.items(), start=1):
            gain = GAIN if number == len(filters) else 1.0
            self.stages.add_module(name, GroupStage(shape, group, gain, generator=generator))

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        """Output features, (N, C'·|G|, H, W)."""
        check_rank(input, "GroupConv")
        expected = self.in_channels * (1 if self.lift else self.group.size)
        if input.shape[1] != expected:
            raise ShapeError(
                f"GroupConv expected {expected} channels, {self.in_channels}{'' if self.lift else ' per element'}, got "
                f"{tuple(input.shape)}. Plain images need lift=True, features over {self.group} lift=False."
            )
        return self.stages(lift(input, self.group) if self.lift else input)

    @torch.no_grad()
    def rescale_(self, factor: float) -> None:
        """Multiply the layer's output by `factor`, in place."""
        last = self.stages[-1]
        assert isinstance(last, GroupStage), "stages are made in the constructor"
        last.weight.mul_(factor)
        last.bias.mul_(factor)

    def extra_repr(self) -> str:
        """Group and factorization, for `print`."""
        return f"{self.group}, {self.factorization}{', lift' if self.lift else ''}"


class GroupStage(nn.Module):
    r"""One stage :math:`y'_h = \sum_u w[u] * (u\, x'_{hu}) + b`, or :math:`w * x'_h + b` if not over the group.

    Arguments:
        filter: The filter, whose weight is (C', C or 1, [|G|,] k, k).
        gain: The initial standard deviation in units of fan-in to the power -1/2.
        generator: The source of the initial weights; by default torch's global generator.
    """

    def __init__(self, filter: Filter, group: Group, gain: float, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.filter, self.group = filter, group
        self.turns_filters = filter.over_group and _commutes(group, filter.kernel_size)
        inputs = (1 if filter.depthwise else filter.in_channels, *((group.size,) if filter.over_group else ()))
        shape = (filter.out_channels, *inputs, filter.kernel_size, filter.kernel_size)
        self.weight = normal_weight(shape, gain / math.sqrt(math.prod(shape[1:])), generator)
        self.bias = nn.Parameter(torch.zeros(filter.out_channels))

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        """Output features, (N, C'·|G|, H, W)."""
        if self.turns_filters:
            return self._in_fixed_frame(input)
        rows = pad_circular(self.seen(input).flatten(0, 1), self.filter.kernel_size)
        weight = self.weight.flatten(1, 2) if self.filter.over_group else self.weight
        output = functional.conv2d(rows, weight, self.bias, groups=self.num_blocks)
        return output.unflatten(0, (-1, self.group.size)).transpose(1, 2).flatten(1, 2)

    @property
    def num_blocks(self) -> int:
        """Number of diagonal blocks of the weight over channels."""
        return self.filter.in_channels if self.filter.depthwise else 1

    def seen(self, features: Float[Tensor, "*N _ H W"]) -> Float[Tensor, "*N G _ H W"]:
        r"""Input of the filter for each output slice h, (..., |G|, C·U, H, W), the offset u fastest.

        It is :math:`u\, x'_{hu}`, U = |G|, over the group, and the slice :math:`x'_h`, U = 1, otherwise.
        """
        slices = features.unflatten(-3, (-1, self.group.size))
        seen = align(slices, self.group) if self.filter.over_group else slices.unsqueeze(-3)  # (..., C, h, u, H, W)
        return seen.transpose(-5, -4).flatten(-4, -3)

    def seen_on_average(self, features: Float[Tensor, "*N _ H W"]) -> Float[Tensor, "*N 1 _ H W"]:
        r"""Mean of `seen` over output slices: :math:`u m` with one mean slice :math:`m` for every u."""
        mean = features.unflatten(-3, (-1, self.group.size)).mean(-3)
        turned = [self.group.act(mean, u) for u in range(self.group.size if self.filter.over_group else 1)]
        return torch.stack(turned, -3).flatten(-4, -3).unsqueeze(-4)

    def _in_fixed_frame(self, features: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        r"""Same outputs by one convolution with turned filters, :math:`h\, w[h^{-1} g]` from slice g to slice h.

        It is faster, and does not store every slice |G| times.
        """
        group = self.group
        rows = [list(group.table[inverse]) for inverse in group.inverses]
        filters = torch.stack([group.act(self.weight[:, :, row], h) for h, row in enumerate(rows)], 1)
        fixed = pad_circular(turn_slices(features, group, range(group.size)), self.filter.kernel_size)
        bias = self.bias.repeat_interleave(group.size)
        output = functional.conv2d(fixed, filters.flatten(0, 1).flatten(1, 2), bias, groups=self.num_blocks)
        return turn_slices(output, group, group.inverses)

    def extra_repr(self) -> str:
        """Shape of the weight, for `print`."""
        return "×".join(map(str, self.weight.shape))


class GroupPool(nn.Module):
    """Mean over the group, (N, C·|G|, H, W) -> (N, C, H, W), of features in the turned frame.

    It is invariant to the group. A shift moves each slice differently, so use it at the end, where H = W = 1.

    Arguments:
        group: The group.

    Example:
        >>> import torch
        >>> from covary.groups import P4
        >>> from covary.layers import GroupPool
        >>> GroupPool(P4)(torch.rand(2, 32, 1, 1)).shape
        torch.Size([2, 8, 1, 1])
    """

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        """Averaged features, (N, C, H, W)."""
        check_slices(input, self.group, "GroupPool", "Lift images first, by a GroupConv with lift=True.")
        return input.unflatten(1, (-1, self.group.size)).mean(2)

    def extra_repr(self) -> str:
        """Group, for `print`."""
        return str(self.group)


def _commutes(group: Group, kernel_size: int) -> bool:
    """Whether turning image and filter turns their convolution; not so with a shift of pixels, or an even side."""
    side = 2 * kernel_size + 1
    image = torch.arange(side**2, dtype=torch.float64, device="cpu").square().remainder(97).view(1, 1, side, side)
    filter = torch.arange(1, kernel_size**2 + 1, dtype=torch.float64, device="cpu").view(1, 1, kernel_size, -1)
    before = functional.conv2d(pad_circular(image, kernel_size), filter)
    # integers: the comparison is exact
    return all(
        torch.equal(
            group.act(before, element),
            functional.conv2d(pad_circular(group.act(image, element), kernel_size), group.act(filter, element)),
        )
        for element in range(group.size)
    )


def _filters(in_channels: int, out_channels: int, kernel_size: int, factorization: str) -> dict[str, Filter]:
    """Filters of the stages by name, in order."""
    spatial = Filter(in_channels, in_channels, kernel_size, depthwise=True)
    if factorization == "full":
        return {"kernel": Filter(in_channels, out_channels, kernel_size, over_group=True)}
    if factorization == "separable":
        return {"spatial": spatial, "mixing": Filter(in_channels, out_channels, over_group=True)}
    if factorization == "depthwise":
        turns = Filter(in_channels, in_channels, over_group=True, depthwise=True)
        return {"spatial": spatial, "turns": turns, "mixing": Filter(in_channels, out_channels)}
    if factorization == "pointwise":
        return {"kernel": Filter(in_channels, out_channels, kernel_size)}
    raise StructureError(f"Expected a factorization among {', '.join(FACTORIZATIONS)}, got {factorization!r}.")
