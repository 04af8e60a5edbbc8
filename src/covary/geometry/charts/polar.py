r"""Polar charts: a weight vector as its length and its direction, without a redundant coordinate.

A row :math:`w = r u` of D entries becomes r and D − 1 stereographic coordinates of the unit vector u, projected from
one end of its last axis, :math:`-\sigma e_D` with :math:`\sigma = \pm 1`:

.. math:: s = \frac{u_{1 \ldots D-1}}{1 + \sigma u_D}, \qquad
          u = \frac{(2 s,\ \sigma (1 - |s|^2))}{1 + |s|^2}, \qquad
          \left|\det \frac{\partial w}{\partial (r, s)}\right| = \Big(\frac{2 r}{1 + |s|^2}\Big)^{D-1}.

One chart misses the end it is projected from; the chart with the other sign covers it, and on the overlap
:math:`s' = s / |s|^2`. Angles would be singular on a whole set of lower dimension, and nested as deep as D.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import ChartError, ShapeError
from .chart import Atlas, Chart, check_size


def polar(row_size: int, signs: Float[Tensor, "..."]) -> Chart:
    """The polar chart of R weight vectors; ψ holds, row by row, the length and D − 1 stereographic coordinates.

    Arguments:
        row_size: The number D of entries of a row; θ has R·D.
        signs: The sign σ of each row, +1 or −1, shape (R,): the half where its coordinates are smallest.

    Example:
        >>> polar(2, torch.ones(1)).forward(torch.tensor([3.0, 4.0]))
        tensor([5.0000, 0.3333])
    """
    if signs.ndim != 1 or not bool((signs.abs() == 1).all()) or row_size < 1:
        raise ShapeError(
            f"Expected one sign +1 or −1 per row, shape (R,), and rows of at least 1 entry, got {signs} and "
            f"{row_size}. Use polar_of(weight), which chooses them."
        )
    name = f"polar coordinates of {len(signs)} rows"
    return Chart(
        name,
        lambda theta: _to_polar(theta.unflatten(-1, (-1, row_size)), signs.to(theta)).flatten(-2),
        lambda psi: _from_polar(psi.unflatten(-1, (-1, row_size)), signs.to(psi)).flatten(-2),
        log_det=lambda theta: _log_det(_to_polar(theta.unflatten(-1, (-1, row_size)), signs.to(theta))),
        domain=lambda theta: _check_rows(theta, row_size, signs, name),
        image=lambda psi: _check_lengths(psi, row_size, signs, name),
    )


def polar_of(weight: Float[Tensor, "..."]) -> Chart:
    """The polar chart for the rows of this weight, each with its direction in the unit ball of its coordinates.

    Arguments:
        weight: The weight, shape (R, ...); a row has the entries of one output.

    Example:
        >>> weight = torch.tensor([[3.0, 4.0]])
        >>> polar_of(weight).forward(weight.flatten())
        tensor([5.0000, 0.3333])
    """
    if weight.ndim < 2:
        raise ShapeError(
            f"Expected a weight with rows, shape (R, ...), got {tuple(weight.shape)}. Keep biases and scales "
            "Cartesian, or unsqueeze(0) a single weight vector."
        )
    rows = weight.detach().flatten(1)
    return polar(rows.shape[1], torch.where(rows[:, -1] < 0, -1.0, 1.0).to(rows))


def polar_atlas(row_size: int) -> Atlas:
    """The two polar charts of one weight vector, which together cover every vector but 0.

    Example:
        >>> polar_atlas(2).at(torch.tensor([0.0, -1.0])).forward(torch.tensor([0.0, -1.0]))
        tensor([1., 0.])
    """
    return Atlas((polar(row_size, torch.ones(1)), polar(row_size, -torch.ones(1))))


def _to_polar(rows: Float[Tensor, "*batch R D"], signs: Float[Tensor, " R"]) -> Float[Tensor, "*batch R D"]:
    lengths = rows.norm(dim=-1, keepdim=True)
    return torch.cat([lengths, rows[..., :-1] / (lengths + signs[:, None] * rows[..., -1:])], dim=-1)


def _from_polar(coordinates: Float[Tensor, "*batch R D"], signs: Float[Tensor, " R"]) -> Float[Tensor, "*batch R D"]:
    lengths, projected = coordinates[..., :1], coordinates[..., 1:]
    square = projected.square().sum(-1, keepdim=True)
    last = signs[:, None] * (1 - square)
    return lengths * torch.cat([2 * projected, last], dim=-1) / (1 + square)


def _log_det(coordinates: Float[Tensor, "*batch R D"]) -> Float[Tensor, "*batch"]:
    lengths, square = coordinates[..., 0], coordinates[..., 1:].square().sum(-1)
    return -(coordinates.shape[-1] - 1) * (2 * lengths / (1 + square)).log().sum(-1)


def _check_rows(theta: Tensor, row_size: int, signs: Tensor, name: str) -> None:
    check_size(theta, row_size * len(signs), name)
    rows = theta.unflatten(-1, (-1, row_size))
    lengths = rows.norm(dim=-1)
    _require_positive(lengths, name)
    # beyond √eps from the missing end the coordinates lose more than half of their digits
    height = 1 + signs.to(theta) * rows[..., -1] / lengths
    if not bool((height > torch.finfo(theta.dtype).eps ** 0.5).all()):
        raise ChartError(
            f"A row is at the end of its axis that chart '{name}' is projected from. Choose the chart with the other "
            "sign: polar_of(weight), or polar_atlas(row_size).at(row)."
        )


def _check_lengths(psi: Tensor, row_size: int, signs: Tensor, name: str) -> None:
    check_size(psi, row_size * len(signs), name)
    _require_positive(psi.unflatten(-1, (-1, row_size))[..., 0], name)


def _require_positive(lengths: Tensor, name: str) -> None:
    if not bool((lengths > 0).all()):
        raise ChartError(
            f"Expected rows of norm above 0 for chart '{name}', got {float(lengths.min()):g}, which has no direction. "
            "Keep this tensor in Cartesian coordinates, or move it."
        )
