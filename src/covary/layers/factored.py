r"""Fully connected maps, factored over space (F-FC): every position is read, then every position is written.

.. math:: y[n,c',x'] = \sum_c \theta_1[c',c,x'] \Big( \sum_x \theta_2[c',c,x]\, x[n,c,x] + b_2[c'] \Big) + b_1[x'].

(Paper 2, Eq. (5).) The matrix :math:`\theta_1 \theta_2` is never formed: reading is one matrix product per input
channel, writing one per output channel. Weights are stored block-major, in the order of these products.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from ..groups import Group
from .dense import GAIN, check_features, check_shapes, normal_weight


class FactoredRead(nn.Module):
    r"""Sums over positions :math:`z[n,c',c] = \sum_x \theta_2[c',c,x]\, x[n,c,x] + b_2[c']`.

    The weight is (C, C', HW), one block per input channel; initial entries have variance 1 / HW.

    Arguments:
        in_shape: The input's (C, H, W).
        out_channels: The number C' of output channels.
        generator: The source of the initial weights; by default torch's global generator.
    """

    def __init__(self, in_shape: Sequence[int], out_channels: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.in_shape = tuple(in_shape)
        in_channels, num_positions = in_shape[0], in_shape[1] * in_shape[2]
        shape = (in_channels, out_channels, num_positions)
        self.weight = normal_weight(shape, 1 / math.sqrt(num_positions), generator)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, input: Float[Tensor, "N C _ _"]) -> Float[Tensor, "N _ C"]:
        """Sum that each output channel reads from each input channel, (N, C', C)."""
        check_features(input, self.in_shape, "FactoredDense")
        return read_blocks(input.flatten(2), self.weight) + self.bias[:, None]


class FactoredWrite(nn.Module):
    r"""Sums over channels :math:`y[n,c',x'] = \sum_c \theta_1[c',c,x']\, z[n,c',c] + b_1[x']`.

    The weight is (C', H'W', C), one block per output channel; initial entries have variance 2 / C. The bias has one
    entry per position, shared by the channels.

    Arguments:
        in_channels: The number C of input channels.
        out_shape: The output's (C', H', W').
        generator: The source of the initial weights; by default torch's global generator.
    """

    def __init__(self, in_channels: int, out_shape: Sequence[int], *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.out_shape = tuple(out_shape)
        out_channels, num_positions = out_shape[0], out_shape[1] * out_shape[2]
        shape = (out_channels, num_positions, in_channels)
        self.weight = normal_weight(shape, GAIN / math.sqrt(in_channels), generator)
        self.bias = nn.Parameter(torch.zeros(num_positions))

    def forward(self, input: Float[Tensor, "N G C"]) -> Float[Tensor, "N G _ _"]:
        """Output features, (N, C', H', W')."""
        return (write_blocks(input, self.weight) + self.bias).unflatten(2, self.out_shape[1:])


class FactoredDense(nn.Module):
    r"""Fully connected map with weights :math:`\theta_1[c',c,x']\, \theta_2[c',c,x]` (F-FC).

    It has C'C(HW + H'W') weights in place of C'C·HW·H'W', in the layers `read` (:math:`\theta_2`) and `write`
    (:math:`\theta_1`). Initially the variance of the output is twice the second moment of the input, for a ReLU.

    Over a group, positions are pairs of element and pixel (paper 2, App. A): features are (N, C·|G|, H, W), and a pair
    of channels reads all slices of one and writes all slices of the other. It commutes with no element.

    Arguments:
        in_shape: The input's (C, H, W), the group not counted.
        out_shape: The output's (C', H', W'), the group not counted.
        group: The group of the features; None for plain ones.
        generator: The source of the initial weights; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.layers import FactoredDense
        >>> FactoredDense((3, 8, 8), (4, 4, 4))(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 4, 4, 4])
        >>> from covary.groups import P4
        >>> FactoredDense((3, 8, 8), (4, 4, 4), group=P4)(torch.rand(2, 3 * 4, 8, 8)).shape
        torch.Size([2, 16, 4, 4])
    """

    added_after_pool = True

    def __init__(
        self,
        in_shape: Sequence[int],
        out_shape: Sequence[int],
        *,
        group: Group | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_shapes("FactoredDense", in_shape, out_shape)
        self.group, size = group, 1 if group is None else group.size
        read, write = ((c, size * height, width) for c, height, width in (in_shape, out_shape))
        self.read = FactoredRead(read, write[0], generator=generator)
        self.write = FactoredWrite(read[0], write, generator=generator)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Output features, (N, C', H', W'), over a group (N, C'·|G|, H', W')."""
        stacked = stack_slices(input, self.read.in_shape[0], self.group, "FactoredDense")
        return unstack_slices(self.write(self.read(stacked)), self.group)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.write.weight.mul_(factor)
        self.write.bias.mul_(factor)


def stack_slices(
    features: Float[Tensor, "N _ H W"], num_channels: int, group: Group | None, layer: str
) -> Float[Tensor, "N C _ W"]:
    """Features (N, C·|G|, H, W) as (N, C, |G|·H, W): the slices of a channel become rows of its image."""
    if group is None:
        return features
    if features.shape[1] != num_channels * group.size:
        raise ShapeError(
            f"{layer} over {group} expected {num_channels * group.size} channels, {num_channels} per element, got "
            f"{tuple(features.shape)}. Lift images first, by covary.groups.lift."
        )
    return features.unflatten(1, (-1, group.size)).flatten(2, 3)


def unstack_slices(features: Float[Tensor, "N C _ W"], group: Group | None) -> Float[Tensor, "N _ H W"]:
    """Features (N, C, |G|·H, W) as (N, C·|G|, H, W)."""
    return features if group is None else features.unflatten(2, (group.size, -1)).flatten(1, 2)


def read_blocks(features: Float[Tensor, "N C X"], weight: Float[Tensor, "C G X"]) -> Float[Tensor, "N G C"]:
    r"""Sums :math:`\sum_x \theta[c,c',x]\, f[n,c,x]`, one matrix product per input channel."""
    if weight.shape[1] > weight.shape[2]:
        # the result is the larger tensor: with data last neither the forward nor the backward pass moves it
        return torch.bmm(weight, features.permute(1, 2, 0)).permute(2, 1, 0)
    return torch.bmm(features.transpose(0, 1), weight.mT).permute(1, 2, 0)


def write_blocks(features: Float[Tensor, "N G C"], weight: Float[Tensor, "G X C"]) -> Float[Tensor, "N G X"]:
    r"""Sums :math:`\sum_c \theta[c',x,c]\, f[n,c',c]`, one matrix product per output channel."""
    if weight.shape[2] > weight.shape[1]:  # as in `read_blocks`
        return torch.bmm(weight, features.permute(1, 2, 0)).permute(2, 0, 1)
    return torch.bmm(features.transpose(0, 1), weight.mT).transpose(0, 1)
