r"""Sparse layers: filters and maps with one value per anchor of a spatial basis, in place of one per position.

The basis :math:`\phi_j(x) = \exp(-\omega^2 \lVert x - z_j \rVert^2)` is that of `basis.py`; anchor positions z are
learned as offsets from an even grid, so that a prior pulls each anchor to its own initial position. They are shared by
all channels, and there are half as many as positions, rounded up. The inverse length :math:`\omega` is initially 1 and
"fixed"; or a "weight" with its own prior, which makes the map constant in space by pulling it to zero (paper 2,
Sec. 3.2); or a "hyperparameter", learned by the evidence through the basis.

Over a finite group, positions are pairs of element and pixel, and the basis needs a distance between elements (paper 2,
App. A): the one that every group has, 0 for equal ones and 1 for others, which no product changes,

.. math:: \phi_j(h, x) = \exp(-\omega^2 ([h \ne h_j] + \lVert x - z_j \rVert^2)).

Every anchor has an element :math:`h_j` that stays, and at :math:`\omega = 0` the map is constant over the group, too.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import StructureError
from ..groups import Group
from .basis import (
    Axes,
    anchor_gradients,
    basis,
    grid_axes,
    half_of,
    in_slices,
    initial_values,
    omega_gradients,
    rectified_moments,
    spread_anchors,
)
from .dense import GAIN, check_channels, check_features, check_shapes, check_sizes, pad_circular
from .factored import read_blocks, stack_slices, unstack_slices, write_blocks

LENGTH_SCALES = ("fixed", "weight", "hyperparameter")


class AbstractSparse(nn.Module):
    r"""A layer with a basis on a grid: the parameter `offsets`, (M, 2), and the inverse length `omega`, (1,).

    Arguments:
        size: The grid's height and width.
        num_anchors: The number M of anchors; half the positions, rounded up, by default.
        length_scale: The role of :math:`\omega`: "fixed", "weight" or "hyperparameter".
        group: The group of the features, whose slices are one below the other; None for plain ones.
    """

    rows: Float[Tensor, " H"]
    columns: Float[Tensor, " W"]
    start: Float[Tensor, "M 2"]
    apart: Float[Tensor, "M S"]
    omega: Float[Tensor, " 1"]

    def __init__(
        self, size: Sequence[int], num_anchors: int | None, length_scale: str, group: Group | None = None
    ) -> None:
        super().__init__()
        height, width = size
        num_slices = 1 if group is None else group.size
        number = half_of(num_slices * height, width) if num_anchors is None else num_anchors
        for name, axis in grid_axes(height, width)._asdict().items():
            self.register_buffer(name, axis, persistent=False)
        start, apart = in_slices(spread_anchors(num_slices * height, width, number), num_slices, height)
        self.register_buffer("start", start, persistent=False)
        self.register_buffer("apart", apart, persistent=False)
        self.offsets = nn.Parameter(torch.zeros(number, 2))
        self._set_omega(length_scale)

    @property
    def axes(self) -> Axes:
        """Coordinates of the grid."""
        return Axes(self.rows, self.columns)

    @property
    def anchors(self) -> Float[Tensor, "M 2"]:
        """Positions z of the anchors: their initial positions plus offsets."""
        return self.start + self.offsets

    def basis(self) -> Float[Tensor, "M X"]:
        r"""Values :math:`\phi_j(x)` of the basis on the grid, slice by slice."""
        return self._over_slices(basis(self.axes, self.anchors, self.omega))

    def anchor_gradients(self) -> Float[Tensor, "M 2 X"]:
        r"""Derivatives :math:`\partial\phi_j(x) / \partial z_j`, the same by anchor and by offset."""
        return self._over_slices(anchor_gradients(self.axes, self.anchors, self.omega))

    def omega_gradients(self) -> Float[Tensor, "M X"]:
        r"""Derivatives :math:`\partial\phi_j(x) / \partial\omega`."""
        along = self._over_slices(omega_gradients(self.axes, self.anchors, self.omega))
        distances = self.apart.repeat_interleave(len(self.rows) * len(self.columns), 1)
        return along - 2 * self.omega * distances * self.basis()

    def _over_slices(self, values: Float[Tensor, "M *rest X"]) -> Float[Tensor, "M *rest _"]:
        """Values on one slice, times the bump over the elements: all slices, one after the other."""
        bumps = torch.exp(-self.omega.square() * self.apart)
        bumps = bumps.reshape(len(bumps), *[1] * (values.ndim - 2), -1, 1)
        return (bumps * values.unsqueeze(-2)).flatten(-2)

    def _set_omega(self, length_scale: str) -> None:
        if length_scale not in LENGTH_SCALES:
            raise StructureError(
                f"Expected length_scale among {', '.join(map(repr, LENGTH_SCALES))}, got {length_scale!r}. "
                "Use 'fixed' for a prior on the anchor values alone."
            )
        if length_scale == "fixed":
            self.register_buffer("omega", torch.ones(1))
        else:
            self.omega = nn.Parameter(torch.ones(1))
        self.hyperparameters = ("omega",) if length_scale == "hyperparameter" else ()

    @torch.no_grad()
    def _draw(
        self, shape: Sequence[int], moments: Float[Tensor, "X X"], generator: torch.Generator | None
    ) -> Float[Tensor, "*shape M"]:
        """Initial values (…, M) whose filters act on features with these moments like weights of variance 1."""
        noise = torch.randn(*shape, len(self.start), generator=generator)
        # the result of a triangular solve from the right is transposed in memory
        return initial_values(noise, self.basis(), moments).contiguous()


class SparseConv(AbstractSparse):
    r"""Convolution with filters :math:`\theta[c',c,x] = \sum_j u[c',c,j]\, \phi_j(x)`, padded circularly (S-CONV).

    Its `values` u are (C', C, M). Initial filters are smooth noise, scaled so that the layer and a ReLU keep the second
    moment of smooth features; biases are zero.

    Arguments:
        in_channels: The number C of input channels.
        out_channels: The number C' of output channels.
        kernel_size: The side k of the square filter.
        num_anchors: The number M of anchors; half of k², rounded up, by default.
        length_scale: The role of :math:`\omega`: "fixed", "weight" or "hyperparameter".
        generator: The source of the initial values; by default torch's global generator.

    Example:
        >>> from covary.layers import SparseConv
        >>> SparseConv(1, 4, kernel_size=3).values.shape  # 5 anchors in place of 9 positions
        torch.Size([4, 1, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        *,
        num_anchors: int | None = None,
        length_scale: str = "fixed",
        generator: torch.Generator | None = None,
    ) -> None:
        check_sizes("SparseConv", (in_channels, out_channels, kernel_size))
        super().__init__((kernel_size, kernel_size), num_anchors, length_scale)
        self.kernel_size = kernel_size
        values = self._draw((out_channels, in_channels), rectified_moments(self.axes), generator)
        self.values = nn.Parameter(values * (GAIN / math.sqrt(in_channels * kernel_size**2)))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def filters(self) -> Float[Tensor, "G C k k"]:
        """Filters of the values, (C', C, k, k)."""
        return (self.values @ self.basis()).unflatten(2, (self.kernel_size, self.kernel_size))

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        """Output features, (N, C', H, W)."""
        check_channels(input, self.values.shape[1], "SparseConv")
        return nn.functional.conv2d(pad_circular(input, self.kernel_size), self.filters(), self.bias)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.values.mul_(factor)
        self.bias.mul_(factor)


class SparseRead(AbstractSparse):
    r"""Sums over positions of `FactoredRead`, with :math:`\theta_2[c',c,x] = \sum_j u[c,c',j]\, \phi_j(x)`.

    Its `values` u are (C, C', M), the bias is (C',). Arguments are those of `SparseDense`.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        out_channels: int,
        num_anchors: int | None,
        length_scale: str,
        generator: torch.Generator | None,
        group: Group | None = None,
    ) -> None:
        super().__init__(in_shape[1:], num_anchors, length_scale, group)
        num_slices = self.apart.shape[1]
        self.in_shape = in_shape[0], num_slices * in_shape[1], in_shape[2]
        values = self._draw((in_shape[0], out_channels), rectified_moments(self.axes, num_slices), generator)
        self.values = nn.Parameter(values / math.sqrt(self.in_shape[1] * self.in_shape[2]))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, input: Float[Tensor, "N C _ _"]) -> Float[Tensor, "N _ C"]:
        """Sum that each output channel reads from each input channel, (N, C', C)."""
        check_features(input, self.in_shape, "SparseDense")
        # the basis sums over positions once for all output channels
        return read_blocks(input.flatten(2) @ self.basis().T, self.values) + self.bias[:, None]


class SparseWrite(AbstractSparse):
    r"""Sums over channels of `FactoredWrite`, with :math:`\theta_1[c',c,x'] = \sum_j u[c',j,c]\, \phi_j(x')`.

    Its `values` u are (C', M, C). It has no bias: one per position would not vanish with :math:`\omega`. Arguments are
    those of `SparseDense`.
    """

    def __init__(
        self,
        in_channels: int,
        out_shape: Sequence[int],
        num_anchors: int | None,
        length_scale: str,
        generator: torch.Generator | None,
        group: Group | None = None,
    ) -> None:
        super().__init__(out_shape[1:], num_anchors, length_scale, group)
        self.out_shape = out_shape[0], self.apart.shape[1] * out_shape[1], out_shape[2]
        # no sum over positions follows
        values = self._draw((out_shape[0], in_channels), torch.eye(self.out_shape[1] * self.out_shape[2]), generator)
        self.values = nn.Parameter(values.transpose(1, 2).contiguous() * (GAIN / math.sqrt(in_channels)))

    def forward(self, input: Float[Tensor, "N G C"]) -> Float[Tensor, "N G _ _"]:
        """Output features, (N, C', H', W')."""
        return (write_blocks(input, self.values) @ self.basis()).unflatten(2, self.out_shape[1:])


class SparseDense(nn.Module):
    r"""Factored fully connected map with both factors in a spatial basis (S-FC; paper 2, Eq. (7)).

    `read` and `write` each have their values, anchors and :math:`\omega`. Initially the variance of the output is twice
    the second moment of smooth inputs, for a ReLU; the bias of `read` is zero. Over a group, features are
    (N, C·|G|, H, W), and both factors are in a basis over elements and pixels.

    Arguments:
        in_shape: The input's (C, H, W), the group not counted.
        out_shape: The output's (C', H', W'), the group not counted.
        num_anchors: The numbers of anchors of `read` and `write`, or one for both; half of the positions of each grid,
            rounded up, by default.
        length_scale: The role of each :math:`\omega`: "fixed", "weight" or "hyperparameter".
        group: The group of the features; None for plain ones.
        generator: The source of the initial values; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.layers import SparseDense
        >>> SparseDense((3, 8, 8), (4, 4, 4))(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 4, 4, 4])
        >>> from covary.groups import P4
        >>> SparseDense((3, 4, 4), (2, 4, 4), group=P4).read.values.shape  # 32 anchors in place of 4 · 16 positions
        torch.Size([3, 2, 32])
    """

    added_after_pool = True

    def __init__(
        self,
        in_shape: Sequence[int],
        out_shape: Sequence[int],
        *,
        num_anchors: int | Sequence[int] | None = None,
        length_scale: str = "fixed",
        group: Group | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_shapes("SparseDense", in_shape, out_shape)
        self.group = group
        read, write = _for_each(num_anchors)
        self.read = SparseRead(in_shape, out_shape[0], read, length_scale, generator, group)
        self.write = SparseWrite(in_shape[0], out_shape, write, length_scale, generator, group)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Output features, (N, C', H', W'), over a group (N, C'·|G|, H', W')."""
        stacked = stack_slices(input, self.read.in_shape[0], self.group, "SparseDense")
        return unstack_slices(self.write(self.read(stacked)), self.group)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.write.values.mul_(factor)


class GlobalSum(nn.Module):
    r"""Map :math:`y[n,c',x'] = \sum_c W[c',c] \sum_x x[n,c,x] + b[c']`: constant in space, invariant to shifts.

    Arguments:
        weight: The matrix W, (C', C).
        bias: The vector b, (C',).
        out_size: The output's (H', W').
    """

    added_after_pool = True

    def __init__(self, weight: Float[Tensor, "G C"], bias: Float[Tensor, " G"], out_size: Sequence[int]) -> None:
        super().__init__()
        out_channels, in_channels = weight.shape
        self.linear = nn.Linear(in_channels, out_channels, device="meta")
        self.linear.weight = nn.Parameter(weight.detach().clone())
        self.linear.bias = nn.Parameter(bias.detach().clone())
        self.out_size = tuple(out_size)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Output features, (N, C', H', W')."""
        check_channels(input, self.linear.in_features, "GlobalSum")
        return self.linear(input.sum((2, 3)))[:, :, None, None].expand(-1, -1, *self.out_size)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.linear.weight.mul_(factor)
        self.linear.bias.mul_(factor)


@torch.no_grad()
def stationary(layer: SparseDense) -> GlobalSum:
    r"""Limit of a sparse dense layer at :math:`\omega = 0`, where every :math:`\phi_j` is 1; the layer is not changed.

    With bars for sums over anchors, its :math:`W[c',c]` is :math:`\bar u_1[c',c]\, \bar u_2[c',c]`, and
    :math:`b[c'] = b_2[c'] \sum_c \bar u_1[c',c]`. A `SparseConv` is stationary at any :math:`\omega`.
    """
    if layer.group is not None:
        raise StructureError(
            f"Expected a sparse layer of plain features, got one over {layer.group}. Keep it as it is."
        )
    written, read = layer.write.values.sum(1), layer.read.values.sum(2).T
    return GlobalSum(written * read, layer.read.bias * written.sum(1), layer.write.out_shape[1:])


def _for_each(num_anchors: int | Sequence[int] | None) -> tuple[int | None, int | None]:
    """Numbers of anchors of `read` and of `write`."""
    if num_anchors is None or isinstance(num_anchors, int):
        return num_anchors, num_anchors
    if len(num_anchors) != 2:
        raise StructureError(
            f"Expected num_anchors to be one number, or two for reading and writing, got {num_anchors!r}. Leave it "
            "out for half of the positions of each grid."
        )
    return num_anchors[0], num_anchors[1]
