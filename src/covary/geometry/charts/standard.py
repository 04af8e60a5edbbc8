"""Standard charts: scalings and affine maps, monotone functions of each coordinate, invertible modules."""

from functools import partial
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp

from ..._types import TensorMap
from ...errors import ChartError, ShapeError
from .chart import Chart, Check, anywhere, check_size


def scaling(factor: float | int | Tensor) -> Chart:
    r"""The chart :math:`\psi = c\,\theta`, of :math:`\log|\det J| = \sum_i \log c_i`.

    Arguments:
        factor: The scale c > 0, one number for any P, or one per coordinate, shape (P,).

    Example:
        >>> scaling(3.0).forward(torch.tensor([1.0, -2.0]))
        tensor([ 3., -6.])
    """
    scale = torch.as_tensor(factor, dtype=None if isinstance(factor, Tensor) else torch.float64)
    if scale.ndim > 1 or not bool(((scale > 0) & scale.isfinite()).all()):
        raise ChartError(
            f"Expected a finite factor above 0, one number or a vector, got {factor}. Use `affine` to mirror an axis."
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

    Example:
        >>> chart = affine(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.ones(2))
        >>> chart.forward(torch.tensor([1.0, 2.0]))
        tensor([3., 3.])
        >>> chart.inverse(torch.tensor([3.0, 3.0]))
        tensor([1., 2.])
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"Expected a square matrix, shape (P, P), got {tuple(matrix.shape)}.")
    size = matrix.shape[0]
    values = torch.linalg.svdvals(matrix.detach())
    if not bool(values.min() > size * torch.finfo(matrix.dtype).eps * values.max()):
        raise ChartError(
            f"Expected a regular matrix, got one with singular values from {float(values.max()):.1e} down to "
            f"{float(values.min()):.1e}. Choose one with an inverse."
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


def elementwise(
    function: TensorMap,
    inverse: TensorMap,
    *,
    name: str = "element-wise",
    domain: Check = anywhere,
    image: Check = anywhere,
) -> Chart:
    r"""The chart :math:`\psi_i = f(\theta_i)` of a monotone f: :math:`\log|\det J| = \sum_i \log|f'(\theta_i)|`.

    Arguments:
        function: The function f, entry by entry, in torch operations.
        inverse: Its inverse.
        name: The chart's name in messages.
        domain: Raises `ChartError` for θ outside the domain; accepts every θ by default.
        image: Raises `ChartError` for ψ outside the image.

    Example:
        >>> chart = elementwise(torch.sinh, torch.asinh, name="sinh")
        >>> chart.log_det(torch.zeros(3))
        tensor(0.)
    """
    return Chart(name, function, inverse, log_det=partial(_log_derivatives, function), domain=domain, image=image)


def exponential() -> Chart:
    r"""The chart :math:`\psi = e^\theta` onto ψ > 0.

    Example:
        >>> exponential().forward(torch.zeros(2))
        tensor([1., 1.])
    """
    return elementwise(torch.exp, torch.log, name="exponential", image=partial(_require_positive, "exponential"))


def logarithm() -> Chart:
    r"""The chart :math:`\psi = \log\theta` of θ > 0: variances and scales in log coordinates.

    Example:
        >>> logarithm().inverse(torch.zeros(2))
        tensor([1., 1.])
    """
    return elementwise(torch.log, torch.exp, name="logarithm", domain=partial(_require_positive, "logarithm"))


def softplus() -> Chart:
    r"""The chart :math:`\psi = \log(1 + e^\theta)` onto ψ > 0.

    Example:
        >>> softplus().forward(torch.zeros(1))
        tensor([0.6931])
    """
    return elementwise(_softplus, _inverse_softplus, name="softplus", image=partial(_require_positive, "softplus"))


def inverse_softplus() -> Chart:
    r"""The chart :math:`\psi = \log(e^\theta - 1)` of θ > 0: variances and scales in softplus coordinates.

    Example:
        >>> inverse_softplus().inverse(torch.zeros(1))
        tensor([0.6931])
    """
    name = "inverse softplus"
    return elementwise(_inverse_softplus, _softplus, name=name, domain=partial(_require_positive, name))


def cube() -> Chart:
    r"""The chart :math:`\psi = \theta^3` away from 0, where its derivative vanishes.

    Example:
        >>> cube().inverse(torch.tensor([-8.0]))
        tensor([-2.])
    """
    return elementwise(
        lambda theta: theta**3,
        lambda psi: psi.sign() * psi.abs() ** (1 / 3),
        name="cube",
        domain=_require_nonzero,
        image=_require_nonzero,
    )


@runtime_checkable
class Invertible(Protocol):
    """A map on the last axis of (..., P) with its inverse."""

    def __call__(self, theta: Tensor) -> Tensor:
        """The coordinates ψ."""
        ...

    def inverse(self, psi: Tensor) -> Tensor:
        """The coordinates θ."""
        ...


def flow(module: object, *, log_det: TensorMap | None = None) -> Chart:
    """The chart of an invertible module; gradients reach the module's parameters.

    `chart.verify(theta)` checks the inverse.

    Arguments:
        module: An `nn.Module` with `forward(theta)` and `inverse(psi)`.
        log_det: Its log-determinant in closed form; by default from the dense Jacobian.

    Example:
        >>> class Shift(torch.nn.Module):
        ...     forward = staticmethod(lambda theta: theta + 1)
        ...     inverse = staticmethod(lambda psi: psi - 1)
        >>> flow(Shift()).forward(torch.zeros(2))
        tensor([1., 1.])
    """
    if not isinstance(module, Invertible):
        raise ChartError(
            f"Expected a module with a method 'inverse', got {type(module).__name__} without one. Add it, or wrap both "
            "maps in a module."
        )
    return Chart(f"flow {type(module).__name__}", module, module.inverse, log_det=log_det)


def _log_derivatives(function: TensorMap, theta: Tensor) -> Tensor:
    derivatives: Tensor = jvp(function, (theta,), (torch.ones_like(theta),))[1]
    return derivatives.abs().log().sum(-1)


def _softplus(theta: Tensor) -> Tensor:
    # torch's own softplus is linear above a threshold, off by 2e-9 there
    return torch.logaddexp(theta, torch.zeros_like(theta))


def _inverse_softplus(psi: Tensor) -> Tensor:
    return psi + torch.log(-torch.expm1(-psi))


def _require_positive(name: str, coordinates: Tensor) -> None:
    if not bool((coordinates > 0).all()):
        raise ChartError(
            f"Expected coordinates above 0 on the positive side of chart '{name}', got {float(coordinates.min()):g}. "
            "Pass a scale or variance, or choose another chart for this parameter."
        )


def _require_nonzero(coordinates: Tensor) -> None:
    if not bool((coordinates != 0).all()):
        raise ChartError(
            "Expected coordinates other than 0 for chart 'cube', got 0, where its derivative is 0. Move the point, or "
            "choose a chart that is regular there."
        )
