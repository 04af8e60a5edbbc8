r"""The Riemannian Hessian and the operator :math:`E = M^{-1} H`, dense, at any point and in any chart.

.. math:: H_{ij} = \partial_i \partial_j L - \Gamma^k_{ij} \partial_k L, \qquad
          \Gamma^k_{ij} = \tfrac12 M^{kl} (\partial_i M_{lj} + \partial_j M_{li} - \partial_l M_{ij})

(paper 3, Eq. (6)). All derivatives are taken in the coordinates of the point's chart.
At a critical point H is the plain Hessian. Sign: of a loss, positive at a minimum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jvp

from ..errors import StructureError
from .charts.chart import Chart
from .metrics.metric import Metric
from .objects import BilinearForm, Operator, Point, positive_log_det, positive_root

Loss = Callable[[Tensor], Tensor]  # Cartesian θ (P,) -> a number


@final
@dataclass(frozen=True, eq=False)
class HessianOperator:
    r"""The operator :math:`E = M^{-1} H`: trace, log-determinant and eigenvalues are the same in every chart.

    The naive ones, of `hessian.components` alone, are not.

    Arguments:
        hessian: The symmetric form H, such as a Riemannian Hessian or a GGN.
        metric: The metric M at the same point, in the same chart.

    Example:
        >>> point = Point(torch.zeros(2))
        >>> operator = HessianOperator(BilinearForm(4 * torch.eye(2), point), BilinearForm(2 * torch.eye(2), point))
        >>> operator.eigenvalues().round(decimals=4)
        tensor([2., 2.])
    """

    hessian: BilinearForm
    metric: BilinearForm

    def to(self, chart: Chart) -> "HessianOperator":
        """The same operator in the coordinates of another chart."""
        return HessianOperator(self.hessian.to(chart), self.metric.to(chart))

    @property
    def operator(self) -> Operator:
        r"""The operator :math:`M^{-1} H` itself."""
        return self.metric.operator(self.hessian)

    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\mathrm{tr}\,M^{-1} H`."""
        return self.operator.trace()

    def log_det(self) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\log\det H - \log\det M`; an error if H is not positive definite."""
        return positive_log_det(self.hessian.components, "the Hessian") - positive_log_det(
            self.metric.components, "the metric"
        )

    def eigenvalues(self) -> Float[Tensor, " P"]:
        r"""The eigenvalues of E, real, ascending: those of :math:`L^{-1} H L^{-\top}` where :math:`L L^\top = M`."""
        root = positive_root(self.metric.components, "the metric")
        half = torch.linalg.solve_triangular(root, self.hessian.components, upper=False)
        return torch.linalg.eigvalsh(torch.linalg.solve_triangular(root, half.mT, upper=False))


def hessian_operator(loss: Loss, metric: Metric, point: Point) -> HessianOperator:
    r"""The operator :math:`E = M^{-1} H` of a loss at a point, in the point's chart.

    Arguments:
        loss: The loss as a function of Cartesian θ.
        metric: The metric.
        point: The point, critical or not.

    Example:
        >>> from covary.geometry import euclidean_metric, scaling
        >>> point = Point(torch.ones(2, dtype=torch.float64)).to(scaling(3.0))
        >>> hessian_operator(lambda theta: theta.square().sum(), euclidean_metric(), point).trace().round(decimals=6)
        tensor(4., dtype=torch.float64)
    """
    return HessianOperator(riemannian_hessian(loss, metric, point), metric.at(point))


def riemannian_hessian(loss: Loss, metric: Metric, point: Point) -> BilinearForm:
    r"""The form :math:`\partial_i \partial_j L - \Gamma^k_{ij} \partial_k L` at a point, in the point's chart.

    Arguments:
        loss: The loss as a function of Cartesian θ.
        metric: The metric whose connection is used.
        point: The point, critical or not.

    Example:
        >>> from covary.geometry import diagonal_metric
        >>> point = Point(torch.ones(2))
        >>> riemannian_hessian(lambda theta: theta.square().sum(), diagonal_metric(torch.ones(2)), point).components
        tensor([[2., 0.],
                [0., 2.]])
    """
    chart, coordinates = point.chart, point.coordinates
    differential = grad(lambda psi: loss(chart.inverse(psi)))(coordinates)
    plain = hessian(lambda psi: loss(chart.inverse(psi)))(coordinates)
    return BilinearForm(plain - _connection_along(metric.to(chart), coordinates, differential), point)


def _connection_along(
    metric: Metric, coordinates: Float[Tensor, " P"], covector: Float[Tensor, " P"]
) -> Float[Tensor, "P P"]:
    r"""The matrix :math:`\Gamma^k_{ij} w_k`, without the P³ symbols.

    With :math:`u = M^{-1} w` held fixed it is
    :math:`\frac12 (\partial_i (M u)_j + \partial_j (M u)_i - u^l \partial_l M_{ij})`.
    """
    _require_differentiable(metric)
    vector = metric.solve(coordinates, covector)
    derivatives = jacfwd(lambda psi: metric.matvec(psi, vector))(coordinates)
    along: Tensor = jvp(metric.matrix, (coordinates,), (vector,))[1]
    return 0.5 * (derivatives + derivatives.mT - along)


def _require_differentiable(metric: Metric) -> None:
    if not metric.differentiable:
        raise StructureError(
            f"Expected a metric that can be differentiated in θ, got '{metric.name}'. Use fisher_metric or a diagonal "
            "one, or form HessianOperator(hessian, metric.at(point)) at a critical point."
        )
