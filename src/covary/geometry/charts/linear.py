"""Charts that are linear up to a shift: one Jacobian everywhere."""

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import ChartError, ShapeError
from .chart import Chart, anywhere, check_size


def scaling(factor: float | int | Tensor) -> Chart:
    r"""The chart :math:`\psi = c\,\theta`, of :math:`\log|\det J| = \sum_i \log c_i`.

    Arguments:
        factor: The scale c > 0, one number for any P, or one per coordinate, shape (P,).
    """
    scale = torch.as_tensor(factor, dtype=None if isinstance(factor, Tensor) else torch.float64)
    if scale.ndim > 1 or not bool(((scale > 0) & scale.isfinite()).all()):
        raise ChartError(
            f"A scaling needs a finite factor above 0, one number or a vector; {factor} came. To mirror an axis as "
            "well, use affine."
        )
    name = f"scaling by {scale.item():g}" if scale.ndim == 0 else f"scaling of {len(scale)} coordinates"
    check = anywhere if scale.ndim == 0 else lambda coordinates: check_size(coordinates, len(scale), name)
    return Chart(
        name,
        lambda theta: theta * scale.to(theta),
        lambda psi: psi / scale.to(psi),
        log_det=lambda theta: (scale.to(theta).log() + torch.zeros_like(theta)).sum(-1),
        domain=check,
        image=check,
    )


def affine(matrix: Float[Tensor, "..."], shift: Float[Tensor, " P"] | None = None) -> Chart:
    r"""The chart :math:`\psi = A\theta + b`, of :math:`J = A`.

    Arguments:
        matrix: The regular matrix A, shape (P, P).
        shift: The vector b, shape (P,); 0 by default.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"An affine chart needs a matrix (P, P); {tuple(matrix.shape)} came. Pass a square one.")
    size = matrix.shape[0]
    values = torch.linalg.svdvals(matrix.detach())
    if not bool(values.min() > size * torch.finfo(matrix.dtype).eps * values.max()):
        raise ChartError(
            f"An affine chart needs a regular matrix; the singular values of this one go from "
            f"{float(values.max()):.1e} down to {float(values.min()):.1e}. Choose one with an inverse."
        )
    offset = matrix.new_zeros(size) if shift is None else shift
    # not linalg.solve: where derivatives along several directions meet several points, torch's is wrong (2.13)
    inverse = torch.linalg.inv(matrix)
    name = f"affine map of {size} coordinates"
    return Chart(
        name,
        lambda theta: theta @ matrix.mT + offset,
        lambda psi: (psi - offset) @ inverse.mT,
        log_det=lambda theta: torch.linalg.slogdet(matrix)[1].expand(theta.shape[:-1]),
        domain=lambda theta: check_size(theta, size, name),
        image=lambda psi: check_size(psi, size, name),
    )
