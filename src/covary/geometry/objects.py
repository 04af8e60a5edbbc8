r"""Geometric objects that know how they transform: points, and tensors and densities at a point.

Under :math:`\psi = \varphi(\theta)` with Jacobian J (paper 3, Section 2.2.1):

.. math:: v \to J v, \quad w \to J^{-\top} w, \quad B \to J^{-\top} B J^{-1}, \quad E \to J E J^{-1}, \quad
          \log q \to \log q - \log|\det J|

for vectors, covectors, bilinear forms, operators and densities. Objects of different charts, points or kinds cannot be
combined.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ChartError, KindError, NotPositiveDefiniteError, ShapeError
from .charts.chart import CARTESIAN, Chart, transition

Kind = TypeVar("Kind", bound="AbstractObject")  # beartype knows `Self` only in classes it decorates whole
Linear = TypeVar("Linear", bound="AbstractLinear")


@final
@dataclass(frozen=True, eq=False)
class Point:
    """A point by its coordinates in a chart.

    Arguments:
        coordinates: The coordinates, shape (P,).
        chart: The chart they belong to; Cartesian by default.

    Example:
        >>> from covary.geometry import scaling
        >>> Point(torch.tensor([1.0, 2.0])).to(scaling(3.0)).coordinates
        tensor([3., 6.])
    """

    coordinates: Float[Tensor, " P"]
    chart: Chart = CARTESIAN

    def __post_init__(self) -> None:
        self.chart.maps.image(self.coordinates)

    @property
    def cartesian(self) -> Float[Tensor, " P"]:
        """The Cartesian coordinates θ."""
        return self.chart.inverse(self.coordinates)

    def to(self, chart: Chart) -> "Point":
        """The same point in the coordinates of another chart."""
        return self if chart is self.chart else Point(chart.forward(self.cartesian), chart)


@dataclass(frozen=True, eq=False)
class AbstractObject(ABC):
    """Components of a tensor at a point, in the chart of the point."""

    num_axes: ClassVar[int]

    # the components: () of a density, (P,) of vectors and covectors, (P, P) of forms and operators
    components: Float[Tensor, "..."]
    point: Point

    def __post_init__(self) -> None:
        size = len(self.point.coordinates)
        expected = self.num_axes * (size,)
        if tuple(self.components.shape) != expected:
            raise ShapeError(
                f"Expected components of shape {expected} for a {type(self).__name__} at a point with {size} "
                f"coordinates, got {tuple(self.components.shape)}."
            )

    @abstractmethod
    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        """The components after a change of coordinates from `source` to `target`."""

    @property
    def chart(self) -> Chart:
        """The chart of the components."""
        return self.point.chart

    def to(self: Kind, chart: Chart) -> Kind:
        """The same object in the coordinates of another chart."""
        if chart is self.chart:
            return self
        point = self.point.to(chart)
        components = self.moved(transition(self.chart, chart), self.point.coordinates, point.coordinates)
        return replace(self, components=components, point=point)


class AbstractLinear(AbstractObject):
    """Objects that can be added and multiplied by numbers."""

    def __add__(self: Linear, other: object) -> Linear:
        """The sum with an object of the same kind, chart and point."""
        same = matching(other, type(self), f"The sum with a {type(self).__name__} is of", self)
        return replace(self, components=self.components + same.components)

    def __sub__(self: Linear, other: object) -> Linear:
        """The difference with an object of the same kind, chart and point."""
        same = matching(other, type(self), f"The difference from a {type(self).__name__} is of", self)
        return replace(self, components=self.components - same.components)

    def __mul__(self: Linear, scale: float | int | Float[Tensor, ""]) -> Linear:
        """The object times a number."""
        return replace(self, components=self.components * scale)

    def __rmul__(self: Linear, scale: float | int | Float[Tensor, ""]) -> Linear:
        """The object times a number."""
        return self * scale


@final
class Vector(AbstractLinear):
    r"""A tangent vector, such as a step or a gradient: :math:`v \to J v`.

    Example:
        >>> from covary.geometry import scaling
        >>> Vector(torch.tensor([1.0]), Point(torch.zeros(1))).to(scaling(2.0)).components
        tensor([2.])
    """

    num_axes = 1

    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        """The components :math:`J v`."""
        del target
        return change.push(source, self.components)


@final
class Covector(AbstractLinear):
    r"""A tangent covector, such as the differential of a loss: :math:`w \to J^{-\top} w`.

    Example:
        >>> from covary.geometry import scaling
        >>> point = Point(torch.zeros(1))
        >>> covector, vector = Covector(torch.tensor([3.0]), point), Vector(torch.tensor([2.0]), point)
        >>> covector @ vector
        tensor(6.)
        >>> covector.to(scaling(2.0)).components
        tensor([1.5000])
    """

    num_axes = 1

    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        r"""The components :math:`J^{-\top} w`."""
        del source
        return change.inverted().pull(target, self.components)

    def __matmul__(self, other: object) -> Float[Tensor, ""]:
        r"""The number :math:`w^\top v`."""
        vector = matching(other, Vector, "A Covector acts on", self)
        return self.components @ vector.components


@final
class BilinearForm(AbstractLinear):
    r"""A bilinear form, such as a metric or a Riemannian Hessian: :math:`B \to J^{-\top} B J^{-1}`.

    Example:
        >>> point = Point(torch.zeros(2))
        >>> metric, vector = BilinearForm(2 * torch.eye(2), point), Vector(torch.ones(2), point)
        >>> metric(vector, vector)
        tensor(4.)
    """

    num_axes = 2

    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        r"""The components :math:`J^{-\top} B J^{-1}`."""
        del source
        back = change.inverted().jacobian(target)
        return back.mT @ self.components @ back

    def __call__(self, left: object, right: object) -> Float[Tensor, ""]:
        r"""The number :math:`v^\top B u`; of a metric, the inner product."""
        return (self @ right) @ left

    def __matmul__(self, other: object) -> Covector:
        """The covector :math:`B u`."""
        vector = matching(other, Vector, "A BilinearForm acts on", self)
        return Covector(self.components @ vector.components, self.point)

    def solve(self, other: object) -> Vector:
        r"""The vector :math:`B^{-1} w`; of a metric and the differential of a loss, its gradient."""
        covector = matching(other, Covector, "The inverse of a BilinearForm acts on", self)
        return Vector(torch.linalg.inv(self.components) @ covector.components, self.point)

    def operator(self, other: object) -> "Operator":
        r"""The operator :math:`B^{-1} H` that this form, a metric, makes of another form."""
        form = matching(other, BilinearForm, "A metric makes an operator of", self)
        return Operator(torch.linalg.inv(self.components) @ form.components, self.point)


@final
class Operator(AbstractLinear):
    r"""A linear map of vectors: :math:`E \to J E J^{-1}`; its trace and determinant do not depend on the chart.

    Example:
        >>> from covary.geometry import scaling
        >>> operator = Operator(torch.tensor([[1.0, 2.0], [0.0, 3.0]]), Point(torch.zeros(2)))
        >>> operator.to(scaling(torch.tensor([2.0, 1.0]))).trace()
        tensor(4.)
    """

    num_axes = 2

    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        r"""The components :math:`J E J^{-1}`."""
        return change.jacobian(source) @ self.components @ change.inverted().jacobian(target)

    def __matmul__(self, other: object) -> Vector:
        """The vector :math:`E v`."""
        vector = matching(other, Vector, "An Operator acts on", self)
        return Vector(self.components @ vector.components, self.point)

    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\sum_i E_{ii}`, the same in every chart."""
        return self.components.trace()

    def log_abs_det(self) -> Float[Tensor, ""]:
        r"""The logarithm :math:`\log|\det E|`, the same in every chart."""
        return torch.linalg.slogdet(self.components)[1]


@final
class Density(AbstractObject):
    r"""A log-density at a point, per unit of the chart's coordinates: :math:`\log q \to \log q - \log|\det J|`.

    Example:
        >>> from covary.geometry import scaling
        >>> Density(torch.tensor(0.0), Point(torch.zeros(1))).to(scaling(2.0)).components
        tensor(-0.6931)
    """

    num_axes = 0

    def moved(self, change: Chart, source: Tensor, target: Tensor) -> Tensor:
        r"""The component :math:`\log q - \log|\det J|`."""
        del target
        return self.components - change.log_det(source)

    def under(self, other: object) -> Float[Tensor, ""]:
        r"""The log-density :math:`\log q - \frac12\log\det M` per unit of a metric's volume, an invariant."""
        metric = matching(other, BilinearForm, "A Density is taken under", self)
        return self.components - 0.5 * positive_log_det(metric.components, "the metric")


def positive_root(matrix: Float[Tensor, "P P"], label: str) -> Float[Tensor, "P P"]:
    r"""The lower triangular L of a positive definite matrix :math:`L L^\top`, differentiable to any order."""
    root, info = torch.linalg.cholesky_ex(matrix)
    if bool(info != 0):
        raise NotPositiveDefiniteError(
            f"Expected {label} to be positive definite, got a matrix whose Cholesky factor fails at row {int(info)}. "
            "Damp the metric, or move to a minimum."
        )
    return root


def positive_log_det(matrix: Float[Tensor, "P P"], label: str) -> Float[Tensor, ""]:
    r"""The log-determinant of a positive definite matrix, differentiable to any order and in any mode."""
    return 2 * positive_root(matrix, label).diagonal().log().sum()


def matching(other: object, kind: type[Kind], relation: str, owner: AbstractObject) -> Kind:
    """The other object, after a check that it is of this kind, in the owner's chart and at its point.

    Arguments:
        relation: The beginning of the message, such as "A Covector acts on".
    """
    if not isinstance(other, kind):
        raise KindError(
            f"{relation} a {kind.__name__}, got {type(other).__name__}. A metric turns vectors into covectors "
            "(metric @ vector) and covectors into vectors (metric.solve)."
        )
    if owner.chart is not other.chart:
        raise ChartError(
            f"Expected a {kind.__name__} in chart '{owner.chart.name}', as the {type(owner).__name__}, got one in "
            f"chart '{other.chart.name}'. Bring both into one with .to(chart)."
        )
    here, there = owner.point.coordinates, other.point.coordinates
    # the same point reached through another chart differs by rounding
    if owner.point is not other.point and not torch.allclose(here, there, rtol=torch.finfo(here.dtype).eps ** 0.5):
        raise ChartError(
            f"Expected a {kind.__name__} at the point of the {type(owner).__name__}, got one at another point. "
            "Evaluate both at one point."
        )
    return other
