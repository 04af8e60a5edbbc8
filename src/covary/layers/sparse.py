r"""Sparse layers: filters and maps with one value per anchor of a spatial basis, in place of one per position.

The basis :math:`\phi_j(x) = \exp(-\omega^2 \lVert x - z_j \rVert^2)` is that of `basis.py`; anchor positions z are
learned as offsets from an even grid, so that a prior pulls each anchor to its own place and not to the center of the
image. They are shared by all channels, and there are half as many as positions, rounded up. The inverse length
:math:`\omega` starts at 1 and is "fixed"; or a "weight" with a prior of its own, where a prior that pulls it to zero
makes the map constant in space (paper 2, Sec. 3.2); or a "hyperparameter", learned by the evidence through the basis.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import StructureError
from .basis import (
    Axes,
    anchor_slopes,
    basis,
    grid_axes,
    half_of,
    initial_values,
    omega_slopes,
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
        length_scale: What :math:`\omega` is: "fixed", "weight" or "hyperparameter".
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
        """The coordinates of the grid."""
        return Axes(self.rows, self.columns)

    @property
    def anchors(self) -> Float[Tensor, "M 2"]:
        """The positions z of the anchors: where they started, and their offsets."""
        return self.start + self.offsets

    def basis(self) -> Float[Tensor, "M X"]:
        r"""The values :math:`\phi_j(x)` of the basis on the grid."""
        return basis(self.axes, self.anchors, self.omega)

    def anchor_slopes(self) -> Float[Tensor, "M 2 X"]:
        r"""The derivatives :math:`\partial\phi_j(x) / \partial z_j`, the same by anchor and by offset."""
        return anchor_slopes(self.axes, self.anchors, self.omega)

    def omega_slopes(self) -> Float[Tensor, "M X"]:
        r"""The derivatives :math:`\partial\phi_j(x) / \partial\omega`."""
        return omega_slopes(self.axes, self.anchors, self.omega)

    def _set_omega(self, length_scale: str) -> None:
        if length_scale not in LENGTH_SCALES:
            raise StructureError(
                f"length_scale must be one of {', '.join(map(repr, LENGTH_SCALES))}; {length_scale!r} came. "
                "Choose 'fixed' for a prior on the anchor values alone."
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
        # a triangular solve from the right leaves its result transposed in memory
        return initial_values(noise, self.basis(), moments).contiguous()


class SparseConv(AbstractSparse):
    r"""The convolution with filters :math:`\theta[c',c,x] = \sum_j u[c',c,j]\, \phi_j(x)`, padded circularly (S-CONV).

    Its `values` u are (C', C, M). Initially filters are smooth noise, scaled so that behind a ReLU the second moment of
    smooth features stays what it was (`basis.initial_values`); biases are zero.

    Arguments:
        in_channels: The number C of input channels.
        out_channels: The number C' of output channels.
        kernel_size: The side k of the square filter.
        num_anchors: The number M of anchors; half of k², rounded up, by default.
        length_scale: What :math:`\omega` is: "fixed", "weight" or "hyperparameter".
        generator: The source of the initial values; torch's own by default.
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
        """The filters that the values induce, (C', C, k, k)."""
        return (self.values @ self.basis()).unflatten(2, (self.kernel_size, self.kernel_size))

    def forward(self, input: Float[Tensor, "N _ H W"]) -> Float[Tensor, "N _ H W"]:
        """The output features, (N, C', H, W)."""
        check_channels(input, self.values.shape[1], "SparseConv")
        return nn.functional.conv2d(pad_circular(input, self.kernel_size), self.filters(), self.bias)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.values.mul_(factor)
        self.bias.mul_(factor)


class SparseRead(AbstractSparse):
    r"""The sums over positions of `FactoredRead`, with :math:`\theta_2[c',c,x] = \sum_j u[c,c',j]\, \phi_j(x)`.

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
        """What each output channel read from each input channel, (N, C', C)."""
        check_features(input, self.in_shape, "SparseDense")
        # the basis sums over positions once for all output channels
        return read_blocks(input.flatten(2) @ self.basis().T, self.values) + self.bias[:, None]


class SparseWrite(AbstractSparse):
    r"""The sums over channels of `FactoredWrite`, with :math:`\theta_1[c',c,x'] = \sum_j u[c',j,c]\, \phi_j(x')`.

    Its `values` u are (C', M, C). It has no bias: one per position would not go away with :math:`\omega`. Arguments are
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
        # no sum over positions follows: each counts for itself
        values = self._draw((out_shape[0], in_channels), torch.eye(out_shape[1] * out_shape[2]), generator)
        self.values = nn.Parameter(values.transpose(1, 2).contiguous() * (GAIN / math.sqrt(in_channels)))

    def forward(self, input: Float[Tensor, "N G C"]) -> Float[Tensor, "N G _ _"]:
        """The output features, (N, C', H', W')."""
        return (write_blocks(input, self.values) @ self.basis()).unflatten(2, self.out_shape[1:])


class SparseDense(nn.Module):
    r"""The factored fully connected map with both factors in a spatial basis (S-FC; paper 2, Eq. (7)).

    `read` and `write` each have their values, anchors and :math:`\omega`. Initially the variance of the output is twice
    the second moment of smooth inputs, as a ReLU needs (`basis.initial_values`); the bias of `read` is zero.

    Arguments:
        in_shape: The input's (C, H, W).
        out_shape: The output's (C', H', W').
        num_anchors: The numbers of anchors of `read` and `write`, or one for both; half of the positions of each grid,
            rounded up, by default.
        length_scale: What each :math:`\omega` is: "fixed", "weight" or "hyperparameter".
        generator: The source of the initial values; torch's own by default.
    """

    onto_pooled_grid = True

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
        """The output features, (N, C', H', W')."""
        output: Tensor = self.write(self.read(input))
        return output

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.write.values.mul_(factor)


def _for_each(num_anchors: int | Sequence[int] | None) -> tuple[int | None, int | None]:
    """The numbers of anchors of `read` and of `write`."""
    if num_anchors is None or isinstance(num_anchors, int):
        return num_anchors, num_anchors
    if len(num_anchors) != 2:
        raise StructureError(
            f"num_anchors must be one number, or two, for reading and writing; {num_anchors!r} came. Leave it out for "
            "half of the positions of each grid."
        )
    return num_anchors[0], num_anchors[1]
