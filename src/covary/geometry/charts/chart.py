r"""Changes of coordinates :math:`\psi = \varphi(\theta)`: maps, products with the Jacobian, volumes, atlases.

Layout: coordinates are (..., P), the last axis a point, leading axes many points. The Jacobian is
:math:`J = \partial\psi / \partial\theta`, rows ψ, columns θ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jacfwd, jvp, vjp, vmap

from ..._types import TensorMap
from ...errors import ChartError, ShapeError

Check = Callable[[Tensor], None]  # raises an error for coordinates that it refuses


def anywhere(coordinates: Tensor) -> None:
    """Accept all coordinates."""
    del coordinates


class Maps(NamedTuple):
    """The functions behind a chart, without checks of their own; other charts are built from them."""

    forward: TensorMap
    inverse: TensorMap
    log_det: TensorMap
    domain: Check
    image: Check


@final
class Chart:
    r"""The change of coordinates :math:`\psi = \varphi(\theta)`, smooth with a smooth inverse.

    :math:`Jv` and :math:`J^\top w` take one derivative of the map along v or w; only `jacobian` forms J.
    `second @ first` is the chart :math:`\theta \mapsto \varphi_2(\varphi_1(\theta))`.

    Arguments:
        name: The chart's name in messages.
        forward: The map φ on the last axis of (..., P), in torch operations.
        inverse: Its inverse.
        log_det: The closed form of :math:`\log|\det J(\theta)|`, (..., P) to (...); by default from J itself.
        domain: Raises `ChartError` for θ outside the domain.
        image: Raises `ChartError` for ψ outside the image.

    Example:
        >>> chart = Chart("double", lambda theta: 2 * theta, lambda psi: psi / 2)
        >>> chart.push(torch.zeros(2), torch.ones(2))
        tensor([2., 2.])
        >>> (chart @ chart).log_det(torch.zeros(2))
        tensor(2.7726)
    """

    def __init__(
        self,
        name: str,
        forward: TensorMap,
        inverse: TensorMap,
        *,
        log_det: TensorMap | None = None,
        domain: Check = anywhere,
        image: Check = anywhere,
    ) -> None:
        self.name = name
        self.maps = Maps(forward, inverse, log_det or partial(dense_log_det, forward), domain, image)

    def __repr__(self) -> str:
        return f"Chart({self.name})"

    def check(self, theta: Float[Tensor, "*batch P"]) -> None:
        """Raise an error that says why if θ is outside the domain."""
        self.maps.domain(theta)

    def forward(self, theta: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        r"""The coordinates :math:`\psi = \varphi(\theta)`."""
        self.maps.domain(theta)
        return self.maps.forward(theta)

    def inverse(self, psi: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        r"""The coordinates :math:`\theta = \varphi^{-1}(\psi)`."""
        self.maps.image(psi)
        return self.maps.inverse(psi)

    def jacobian(self, theta: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P P"]:
        r"""The Jacobian :math:`J(\theta) = \partial\psi / \partial\theta`, dense: for small P."""
        self.maps.domain(theta)
        return dense_jacobian(self.maps.forward, theta)

    def log_det(self, theta: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch"]:
        r"""The logarithm :math:`\log|\det J(\theta)|` of the volume that ψ gives to a unit of θ."""
        self.maps.domain(theta)
        return self.maps.log_det(theta)

    def push(self, theta: Float[Tensor, "*batch P"], vector: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        """The vector :math:`J v` in ψ of a vector v in θ, without J."""
        self.maps.domain(theta)
        return jvp(self.maps.forward, (theta,), (vector,))[1]

    def pull(self, theta: Float[Tensor, "*batch P"], covector: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        r"""The covector :math:`J^\top w` in θ of a covector w in ψ, without J."""
        self.maps.domain(theta)
        return vjp(self.maps.forward, theta)[1](covector)[0]

    def inverted(self) -> "Chart":
        r"""The chart :math:`\theta = \varphi^{-1}(\psi)`, whose Jacobian is :math:`J^{-1}`."""
        return Chart(
            f"inverse of {self.name}",
            self.maps.inverse,
            self.maps.forward,
            log_det=lambda psi: -self.maps.log_det(self.maps.inverse(psi)),
            domain=self.maps.image,
            image=self.maps.domain,
        )

    def __matmul__(self, first: "Chart") -> "Chart":
        """The chart that applies `first`, then this one; its domain is where both are defined."""
        outer, inner = self.maps, first.maps
        return Chart(
            f"{self.name} ∘ {first.name}",
            lambda theta: outer.forward(inner.forward(theta)),
            lambda psi: inner.inverse(outer.inverse(psi)),
            log_det=lambda theta: outer.log_det(inner.forward(theta)) + inner.log_det(theta),
            domain=partial(_check_both, inner.domain, inner.forward, outer.domain),
            image=partial(_check_both, outer.image, outer.inverse, inner.image),
        )

    def verify(self, theta: Float[Tensor, "*batch P"]) -> None:
        """Raise `ChartError` unless the inverse returns to θ and J is regular there.

        For maps of your own, such as a flow or a monotone function.
        """
        returned = self.inverse(self.forward(theta))
        gap = float(((returned - theta).abs().max() / theta.abs().max().clamp_min(1.0)).detach())
        if not gap <= torch.finfo(theta.dtype).eps ** 0.5:
            raise ChartError(
                f"Expected the inverse of chart '{self.name}' to return to the point, got a relative error of "
                f"{gap:.1e}. Correct the inverse, or compute in float64."
            )
        if not bool(self.log_det(theta).isfinite().all()):
            raise ChartError(
                f"Expected a regular Jacobian of chart '{self.name}', got log-determinant {self.log_det(theta)}. Move "
                "the point, or choose a chart that covers it."
            )


def dense_jacobian(function: TensorMap, theta: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P P"]:
    """The Jacobian of a map on the last axis, one matrix per point."""
    if theta.ndim == 1:
        return jacfwd(function)(theta)
    matrices: Tensor = vmap(jacfwd(function))(theta.reshape(-1, theta.shape[-1]))
    return matrices.reshape(*theta.shape, theta.shape[-1])


def dense_log_det(function: TensorMap, theta: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch"]:
    r"""The logarithm :math:`\log|\det J|` by elimination, cubic in P."""
    return torch.linalg.slogdet(dense_jacobian(function, theta))[1]


def check_size(coordinates: Tensor, size: int, name: str) -> None:
    """Raise `ShapeError` unless points have this number of coordinates."""
    if coordinates.ndim == 0 or coordinates.shape[-1] != size:
        raise ShapeError(
            f"Expected points of {size} coordinates, shape (..., {size}), for chart '{name}', got "
            f"{tuple(coordinates.shape)}. Flatten the parameters in their order."
        )


def transition(source: Chart, target: Chart) -> Chart:
    r"""The chart :math:`\varphi_t \circ \varphi_s^{-1}` from the coordinates of one chart to another's.

    Example:
        >>> from covary.geometry import scaling
        >>> transition(scaling(2.0), scaling(6.0)).forward(torch.ones(1))
        tensor([3.])
    """
    return target @ source.inverted()


@dataclass(frozen=True, eq=False)
class Atlas:
    """Local charts that together cover what none covers alone (paper 3, App. D).

    Arguments:
        charts: The charts, all from the same θ.

    Example:
        >>> from covary.geometry import logarithm
        >>> Atlas((logarithm(), CARTESIAN)).at(torch.tensor([-1.0]))
        Chart(Cartesian)
    """

    charts: tuple[Chart, ...]

    def at(self, theta: Float[Tensor, " P"]) -> Chart:
        """The chart that covers θ and in which its coordinates are smallest.

        Coordinates grow without bound toward the edge of a chart, so small ones are far from it.
        """
        covering = [chart for chart in self.charts if _covers(chart, theta)]
        if not covering:
            raise ChartError(
                f"None of the {len(self.charts)} charts of the atlas covers this point. Add one that does, or move "
                "the point; a vector of norm 0 has no direction."
            )
        return min(covering, key=lambda chart: float(chart.forward(theta).abs().max()))


def _covers(chart: Chart, theta: Tensor) -> bool:
    try:
        chart.check(theta)
    except ChartError:
        return False
    return True


def _check_both(first: Check, function: TensorMap, second: Check, coordinates: Tensor) -> None:
    first(coordinates)
    second(function(coordinates))


def _same(coordinates: Tensor) -> Tensor:
    return coordinates


CARTESIAN = Chart("Cartesian", _same, _same, log_det=lambda theta: theta.new_zeros(theta.shape[:-1]))
