r"""Sparse layers: filters and maps with one value per anchor of a spatial basis, in place of one per position.

The basis :math:`\phi_j(x) = \exp(-\omega^2 \lVert x - z_j \rVert^2)` is that of `basis.py`; anchor positions z are
learned as offsets from an even grid, so that a prior pulls each anchor to its own initial position. They are shared by
all channels, and there are half as many as positions, rounded up. The inverse length :math:`\omega` is initially 1 and
"fixed"; or a "weight" with its own prior, which makes the map constant in space by pulling it to zero (paper 2,
Sec. 3.2); or a "hyperparameter", learned by the evidence through the basis.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import StructureError
from .basis import (
    Axes,
    anchor_gradients,
    basis,
    grid_axes,
    half_of,
    initial_values,
    omega_gradients,
    rectified_moments,
    spread_anchors,
)
from .dense import GAIN, check_channels, check_features, check_shapes, check_sizes, pad_circular
from .factored import read_blocks, write_blocks

LENGTH_SCALES = ("fixed", "weight", "hyperparameter")


class AbstractSparse(nn.Module):
    r"""A layer with a basis on a grid: the parameter `offsets`, (M, 2), and the inverse length `omega`, (1,).

    Arguments:
        size: The grid's height and width.
        num_anchors: The number M of anchors; half the positions, rounded up, by default.
        length_scale: The role of :math:`\omega`: "fixed", "weight" or "hyperparameter".
    """

    rows: Float[Tensor, " H"]
    columns: Float[Tensor, " W"]
    start: Float[Tensor, "M 2"]
    omega: Float[Tensor, " 1"]

    def __init__(self, size: Sequence[int], num_anchors: int | None, length_scale: str) -> None:
        super().__init__()
        height, width = size
        number = half_of(height, width) if num_anchors is None else num_anchors
        for name, axis in grid_axes(height, width)._asdict().items():
            self.register_buffer(name, axis, persistent=False)
        self.register_buffer("start", spread_anchors(height, width, number), persistent=False)
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
        r"""Values :math:`\phi_j(x)` of the basis on the grid."""
        return basis(self.axes, self.anchors, self.omega)

    def anchor_gradients(self) -> Float[Tensor, "M 2 X"]:
        r"""Derivatives :math:`\partial\phi_j(x) / \partial z_j`, the same by anchor and by offset."""
        return anchor_gradients(self.axes, self.anchors, self.omega)

    def omega_gradients(self) -> Float[Tensor, "M X"]:
        r"""Derivatives :math:`\partial\phi_j(x) / \partial\omega`."""
        return omega_gradients(self.axes, self.anchors, self.omega)

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
    ) -> None:
        super().__init__(in_shape[1:], num_anchors, length_scale)
        self.in_shape = tuple(in_shape)
        values = self._draw((in_shape[0], out_channels), rectified_moments(self.axes), generator)
        self.values = nn.Parameter(values / math.sqrt(in_shape[1] * in_shape[2]))
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
    ) -> None:
        super().__init__(out_shape[1:], num_anchors, length_scale)
        self.out_shape = tuple(out_shape)
        # no sum over positions follows
        values = self._draw((out_shape[0], in_channels), torch.eye(out_shape[1] * out_shape[2]), generator)
        self.values = nn.Parameter(values.transpose(1, 2).contiguous() * (GAIN / math.sqrt(in_channels)))

    def forward(self, input: Float[Tensor, "N G C"]) -> Float[Tensor, "N G _ _"]:
        """Output features, (N, C', H', W')."""
        return (write_blocks(input, self.values) @ self.basis()).unflatten(2, self.out_shape[1:])


class SparseDense(nn.Module):
    r"""Factored fully connected map with both factors in a spatial basis (S-FC; paper 2, Eq. (7)).

    `read` and `write` each have their values, anchors and :math:`\omega`. Initially the variance of the output is twice
    the second moment of smooth inputs, for a ReLU; the bias of `read` is zero.

    Arguments:
        in_shape: The input's (C, H, W).
        out_shape: The output's (C', H', W').
        num_anchors: The numbers of anchors of `read` and `write`, or one for both; half of the positions of each grid,
            rounded up, by default.
        length_scale: The role of each :math:`\omega`: "fixed", "weight" or "hyperparameter".
        generator: The source of the initial values; by default torch's global generator.

    Example:
        >>> import torch
        >>> from covary.layers import SparseDense
        >>> SparseDense((3, 8, 8), (4, 4, 4))(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 4, 4, 4])
    """

    added_after_pool = True

    def __init__(
        self,
        in_shape: Sequence[int],
        out_shape: Sequence[int],
        *,
        num_anchors: int | Sequence[int] | None = None,
        length_scale: str = "fixed",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_shapes("SparseDense", in_shape, out_shape)
        read, write = _for_each(num_anchors)
        self.read = SparseRead(in_shape, out_shape[0], read, length_scale, generator)
        self.write = SparseWrite(in_shape[0], out_shape, write, length_scale, generator)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Output features, (N, C', H', W')."""
        output: Tensor = self.write(self.read(input))
        return output

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
