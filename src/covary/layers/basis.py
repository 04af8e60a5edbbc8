r"""The spatial basis of the sparse layers: a few bumps in place of one weight per position.

.. math:: \phi_j(x) = \exp(-\omega^2 \lVert x - z_j \rVert^2), \qquad \theta(x) = \sum_j u_j\, \phi_j(x),

a plain sum (paper 2, Sec. 3.1). Coordinates (row, column) are in pixels, centered on the grid: 3 × 3 positions have
coordinates −1, 0, 1. :math:`\omega` is an inverse length. At :math:`\omega = 0` every bump is 1 everywhere, and
:math:`\theta` constant in space. A bump on a grid is the outer product of one along its rows and one along its columns,
so that there are M(H + W) exponentials instead of M·HW.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import StructureError


class Axes(NamedTuple):
    """Coordinates of a grid's rows and of its columns, in pixels from its center."""

    rows: Float[Tensor, " H"]
    columns: Float[Tensor, " W"]


def grid_axes(height: int, width: int) -> Axes:
    """Coordinates of a grid, in the default dtype."""
    rows, columns = [torch.arange(n, dtype=torch.get_default_dtype()) - (n - 1) / 2 for n in (height, width)]
    return Axes(rows, columns)


def half_of(height: int, width: int) -> int:
    """Half the number of positions of a grid, rounded up: 9 -> 5, 1024 -> 512."""
    return -(-height * width // 2)


def spread_anchors(height: int, width: int, num_anchors: int) -> Float[Tensor, "M 2"]:
    """Evenly spread positions of a grid, as initial anchors; at most all of them.

    Half of the positions, rounded up, are a checkerboard: 5 anchors of 3 × 3 are its corners and center. Fewer anchors
    are an even selection of the checkerboard; more are all of it and an even selection of the rest. Evenly spread bumps
    overlap equally, so that no two anchor values are nearly redundant, as those of random positions are.
    """
    if not 1 <= num_anchors <= height * width:
        raise StructureError(
            f"Expected 1 to {height * width} anchors on {height} × {width} positions, got {num_anchors}. The default "
            f"is {half_of(height, width)}."
        )
    parity = (torch.arange(height)[:, None] + torch.arange(width)).flatten() % 2
    # the checkerboard, then the rest, each row by row
    order, half = parity.argsort(stable=True), half_of(height, width)
    board, rest = order[:half], order[half:]
    chosen = torch.cat([_evenly(board, min(num_anchors, len(board))), _evenly(rest, max(0, num_anchors - len(board)))])
    return torch.cartesian_prod(*grid_axes(height, width))[chosen]


def in_slices(
    anchors: Float[Tensor, "M 2"], num_slices: int, height: int
) -> tuple[Float[Tensor, "M 2"], Float[Tensor, "M S"]]:
    """Anchors on a grid of slices one below the other: their place in their slice, and their distance from each."""
    rows = anchors[:, 0] + (num_slices * height - 1) / 2
    element = (rows / height).floor()
    inside = torch.stack([rows - element * height - (height - 1) / 2, anchors[:, 1]], 1)
    return inside, (element[:, None] != torch.arange(num_slices)).to(anchors)


def basis(axes: Axes, anchors: Float[Tensor, "M 2"], omega: Float[Tensor, " 1"]) -> Float[Tensor, "M X"]:
    r"""Values :math:`\phi_j(x)` of each bump at each position, row by row."""
    (_, along_rows), (_, along_columns) = _factors(axes, anchors, omega)
    return _outer(along_rows, along_columns)


def anchor_gradients(axes: Axes, anchors: Float[Tensor, "M 2"], omega: Float[Tensor, " 1"]) -> Float[Tensor, "M 2 X"]:
    r"""Derivatives :math:`\partial\phi_j(x) / \partial z_j = 2 \omega^2 (x - z_j)\, \phi_j(x)`."""
    (down, along_rows), (across, along_columns) = _factors(axes, anchors, omega)
    gradients = [_outer(down * along_rows, along_columns), _outer(along_rows, across * along_columns)]
    return 2 * omega.square() * torch.stack(gradients, 1)


def omega_gradients(axes: Axes, anchors: Float[Tensor, "M 2"], omega: Float[Tensor, " 1"]) -> Float[Tensor, "M X"]:
    r"""Derivatives :math:`\partial\phi_j(x) / \partial\omega = -2 \omega \lVert x - z_j \rVert^2 \phi_j(x)`."""
    (down, along_rows), (across, along_columns) = _factors(axes, anchors, omega)
    by_rows = _outer(down.square() * along_rows, along_columns)
    return -2 * omega * (by_rows + _outer(along_rows, across.square() * along_columns))


def rectified_moments(axes: Axes, num_slices: int = 1) -> Float[Tensor, "X X"]:
    r"""Second moments :math:`E[f(x) f(x')] / E[f^2]` of smooth features after a ReLU.

    Before it they are normal with correlation :math:`r = \exp(-\lVert x - x' \rVert^2 / 2)`, as sums of bumps with
    :math:`\omega = 1` are; after it the moments are :math:`(\sqrt{1 - r^2} + r (\pi - \arccos r)) / \pi`. Slices of
    two elements of a group are at the distance 1.
    """
    down, across = [torch.exp(-(axis[:, None] - axis).square() / 2) for axis in axes]
    apart = torch.ones(num_slices, num_slices) - torch.eye(num_slices)
    r = torch.kron(torch.exp(-apart / 2).to(down), torch.kron(down, across))
    return ((1 - r.square()).sqrt() + r * (math.pi - r.arccos())) / math.pi


def initial_values(
    noise: Float[Tensor, "*rows M"], phi: Float[Tensor, "M X"], moments: Float[Tensor, "X X"]
) -> Float[Tensor, "*rows M"]:
    r"""Anchor values whose filters :math:`\theta = u \phi` act like independent weights of variance 1.

    Filters are white noise in the span of the basis, :math:`\theta = s\, \epsilon Q` where :math:`Q = L^{-1} \phi` has
    orthonormal rows (:math:`\phi \phi^\top = L L^\top`). Smooth filters amplify features that are smooth or of one
    sign more than independent weights do; s corrects that, so that :math:`\sum_x \theta(x) f(x)` has the second moment
    X of independent weights on average over features with the given moments.

    Arguments:
        noise: Independent normal numbers :math:`\epsilon`.
        moments: The second moments of features f at pairs of positions, relative to their mean square.
    """
    root = torch.linalg.cholesky(phi @ phi.T)
    filters = torch.linalg.solve_triangular(root, phi, upper=False)
    power = (filters @ moments * filters).sum() / phi.shape[1]
    return torch.linalg.solve_triangular(root, noise, upper=False, left=False) * power.rsqrt()


def _factors(axes: Axes, anchors: Float[Tensor, "M 2"], omega: Float[Tensor, " 1"]) -> list[tuple[Tensor, Tensor]]:
    """Offsets from the anchors and bumps along each axis, (M, H) for rows and (M, W) for columns."""
    offsets = [axis - z[:, None] for axis, z in zip(axes, anchors.unbind(1), strict=True)]
    return [(offset, torch.exp(-omega.square() * offset.square())) for offset in offsets]


def _outer(rows: Float[Tensor, "M H"], columns: Float[Tensor, "M W"]) -> Float[Tensor, "M X"]:
    return (rows[:, :, None] * columns[:, None]).flatten(1)


def _evenly(positions: Tensor, number: int) -> Tensor:
    """Evenly spaced selection of that many positions."""
    return positions[torch.arange(number) * len(positions) // max(number, 1)]
