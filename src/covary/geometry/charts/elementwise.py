"""Charts that act on every coordinate by itself, through a monotone function: Jacobians are diagonal."""

from functools import partial

import torch
from torch import Tensor
from torch.func import jvp

from ..._types import TensorMap
from ...errors import ChartError
from .chart import Chart, Check, anywhere


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
        name: How messages call it.
        domain: Refusal of θ outside the domain, by `ChartError`; none by default.
        image: Refusal of ψ outside the image.
    """
    return Chart(name, function, inverse, log_det=partial(_log_slopes, function), domain=domain, image=image)


def exponential() -> Chart:
    r"""The chart :math:`\psi = e^\theta` onto ψ > 0."""
    return elementwise(torch.exp, torch.log, name="exponential", image=partial(_require_positive, "exponential"))


def logarithm() -> Chart:
    r"""The chart :math:`\psi = \log\theta` of θ > 0: variances and scales in log coordinates."""
    return elementwise(torch.log, torch.exp, name="logarithm", domain=partial(_require_positive, "logarithm"))


def softplus() -> Chart:
    r"""The chart :math:`\psi = \log(1 + e^\theta)` onto ψ > 0."""
    return elementwise(_softplus, _inverse_softplus, name="softplus", image=partial(_require_positive, "softplus"))


def inverse_softplus() -> Chart:
    r"""The chart :math:`\psi = \log(e^\theta - 1)` of θ > 0: variances and scales in softplus coordinates."""
    name = "inverse softplus"
    return elementwise(_inverse_softplus, _softplus, name=name, domain=partial(_require_positive, name))


def cube() -> Chart:
    r"""The chart :math:`\psi = \theta^3` away from 0, where its slope vanishes."""
    return elementwise(_cube, _cube_root, name="cube", domain=_require_nonzero, image=_require_nonzero)


def _log_slopes(function: TensorMap, theta: Tensor) -> Tensor:
    slopes: Tensor = jvp(function, (theta,), (torch.ones_like(theta),))[1]
    return slopes.abs().log().sum(-1)


def _softplus(theta: Tensor) -> Tensor:
    # torch's own softplus is linear above a threshold, off by 2e-9 there
    return torch.logaddexp(theta, torch.zeros_like(theta))


def _inverse_softplus(psi: Tensor) -> Tensor:
    return psi + torch.log(-torch.expm1(-psi))


def _cube(theta: Tensor) -> Tensor:
    return theta**3


def _cube_root(psi: Tensor) -> Tensor:
    return psi.sign() * psi.abs() ** (1 / 3)


def _require_positive(name: str, coordinates: Tensor) -> None:
    if not bool((coordinates > 0).all()):
        raise ChartError(
            f"Coordinates on the positive side of chart '{name}' must be above 0; {float(coordinates.min()):g} came. "
            "Pass a scale or variance, or choose another chart for this parameter."
        )


def _require_nonzero(coordinates: Tensor) -> None:
    if not bool((coordinates != 0).all()):
        raise ChartError(
            "The chart 'cube' has slope 0 at 0, where it is no change of coordinates; a coordinate is 0. Move it, or "
            "choose a chart that is regular there."
        )
