r"""Riemannian metrics: positive definite matrices :math:`M(\theta)`, in the coordinates of any chart.

A metric is defined by its matrix in Cartesian θ. In a chart with Jacobian J its matrix is
:math:`J^{-\top} M J^{-1}`, its log-determinant :math:`\log\det M - 2\log|\det J|`; products and solutions need
products with J alone. Diagonal ones go by the names of weights, given as tensors or read from an optimizer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..._types import Weights
from ...errors import NotPositiveDefiniteError, ShapeError, StructureError
from ...linalg import AbstractPSD, Block, Dense, Diagonal, Kron
from ...priors import weights_of
from ..charts.chart import CARTESIAN, Chart
from ..objects import BilinearForm, Point, positive_log_det, positive_root


@final
@dataclass(frozen=True, eq=False)
class Metric:
    r"""The metric :math:`M(\theta) + \lambda I`, seen in the coordinates of a chart.

    Every method takes the coordinates of a point in `chart`, shape (P,).

    Arguments:
        name: Its name in messages.
        field: From Cartesian θ, shape (P,), to the matrix :math:`M(\theta)` by its structure.
        chart: The chart whose coordinates the methods take.
        damping: The multiple λ of the identity of θ; it is part of the metric and transforms with it.
        differentiable: Whether the field can be differentiated in θ, as Christoffel symbols require.

    Example:
        >>> from covary.geometry import scaling
        >>> metric = Metric("twice the identity", lambda theta: Diagonal(2 * torch.ones_like(theta)))
        >>> metric.to(scaling(2.0)).matrix(torch.zeros(2))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.5000]])
    """

    name: str
    field: Callable[[Tensor], AbstractPSD]
    chart: Chart = CARTESIAN
    damping: float = 0.0
    differentiable: bool = True

    def to(self, chart: Chart) -> "Metric":
        """The same metric, pulled back to the coordinates of another chart."""
        return replace(self, chart=chart)

    def damped(self, amount: float | int) -> "Metric":
        r"""The metric plus a multiple of the identity of θ.

        Arguments:
            amount: The multiple, above 0.
        """
        if not amount > 0:
            raise StructureError(f"Expected damping above 0, such as a small fraction of M's trace / P, got {amount}.")
        return replace(self, damping=self.damping + amount)

    def at(self, point: Point) -> BilinearForm:
        """The metric at a point, in the point's chart; an error if it is not positive definite."""
        matrix = self._checked(point.cartesian)
        return BilinearForm(self.to(point.chart)._pulled_back(matrix, point.coordinates), point)

    def matrix(self, coordinates: Float[Tensor, " P"]) -> Float[Tensor, "P P"]:
        r"""The matrix :math:`J^{-\top} M J^{-1}`, dense and differentiable, for small P."""
        return self._pulled_back(self.field(self.chart.inverse(coordinates)), coordinates)

    def matvec(self, coordinates: Float[Tensor, " P"], vector: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        r"""The covector :math:`J^{-\top} M J^{-1} v`, without forming J."""
        back = self.chart.inverted()
        inner = back.push(coordinates, vector)
        lowered = self.field(self.chart.inverse(coordinates)).matvec(inner) + self.damping * inner
        return back.pull(coordinates, lowered)

    def solve(self, coordinates: Float[Tensor, " P"], covector: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        r"""The vector :math:`J M^{-1} J^\top w`, without forming J; of the differential of a loss, its gradient."""
        theta = self.chart.inverse(coordinates)
        matrix, inner = self._checked(theta), self.chart.pull(theta, covector)
        if not isinstance(matrix, Dense):
            return self.chart.push(theta, matrix.solve(inner, self.damping))
        # by Cholesky, not Dense.solve: it can be differentiated to any order and in any mode
        root = positive_root(self._dense(matrix), self.name)
        return self.chart.push(theta, torch.cholesky_solve(inner.unsqueeze(-1), root).squeeze(-1))

    def log_det(self, coordinates: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\log\det M - 2\log|\det J|`; half of it is the log-volume of a unit of ψ."""
        theta = self.chart.inverse(coordinates)
        matrix = self._checked(theta)
        volume = 2 * self.chart.log_det(theta)
        if not isinstance(matrix, Dense):
            return matrix.logdet(self.damping) - volume
        return positive_log_det(self._dense(matrix), self.name) - volume

    def _pulled_back(self, matrix: AbstractPSD, coordinates: Float[Tensor, " P"]) -> Float[Tensor, "P P"]:
        if self.chart is CARTESIAN:
            return self._dense(matrix)
        back = self.chart.inverted().jacobian(coordinates)
        return back.mT @ self._dense(matrix) @ back

    def _dense(self, matrix: AbstractPSD) -> Float[Tensor, "P P"]:
        entries = matrix.to_dense()
        return entries + self.damping * torch.eye(len(entries)).to(entries) if self.damping else entries

    def _checked(self, theta: Float[Tensor, " P"]) -> AbstractPSD:
        """The matrix at θ, after a check that it is positive definite beyond rounding."""
        matrix = self.field(theta)
        if _is_definite(matrix, self.damping):
            return matrix
        raise NotPositiveDefiniteError(
            f"Expected a positive definite metric, got '{self.name}', which is singular here. The Fisher, GGN and "
            "empirical Fisher of a network with more weights than N·C outputs always are. Damp it: "
            "metric.damped(1e-3)."
        )


def euclidean_metric(chart: Chart = CARTESIAN) -> Metric:
    r"""The metric that is the identity in the coordinates of a chart: of ψ, :math:`M(\theta) = J^\top J` in θ.

    Plain gradient descent in ψ is descent in this metric, which differs from the identity of θ.

    Arguments:
        chart: The chart; Cartesian by default.

    Example:
        >>> from covary.geometry import scaling
        >>> euclidean_metric(scaling(3.0)).matrix(torch.zeros(1))
        tensor([[9.]])
    """
    if chart is CARTESIAN:
        return Metric("Euclidean metric", lambda theta: Diagonal(torch.ones_like(theta)))
    return Metric(f"Euclidean metric of {chart.name}", partial(_gram, chart))


def diagonal_metric(values: Float[Tensor, " P"], name: str = "diagonal metric") -> Metric:
    r"""The metric :math:`M = \mathrm{diag}(d)`, the same at every θ.

    Adam's and RMSprop's are :math:`d = \sqrt{\hat v} + \epsilon`, as an optimizer holds them after training.

    Arguments:
        values: The diagonal d > 0, shape (P,), in the order of θ.
        name: Its name in messages.

    Example:
        >>> diagonal_metric(torch.tensor([1.0, 4.0])).solve(torch.zeros(2), torch.ones(2))
        tensor([1.0000, 0.2500])
    """
    return Metric(name, lambda theta: Diagonal(values.to(theta)))


def _gram(chart: Chart, theta: Float[Tensor, " P"]) -> Dense:
    chart_jacobian = chart.jacobian(theta)
    return Dense(chart_jacobian.mT @ chart_jacobian)


def _is_definite(matrix: AbstractPSD, damping: float) -> bool:
    """Whether the smallest eigenvalue plus damping is above the rounding error of the largest."""
    if isinstance(matrix, Block):
        return all(_is_definite(block, damping) for block in matrix.blocks.values())
    if isinstance(matrix, Diagonal):
        return bool((matrix.values + damping > 0).all())
    assert isinstance(matrix, Dense | Kron), "a block is Dense, Diagonal or Kron"
    if isinstance(matrix, Kron) and damping > 0:
        return True  # its factors are positive semi-definite by construction
    tolerance = 10 * matrix.size * torch.finfo(matrix.dtype).eps
    factors = matrix.factors.values(matrix.name)
    return all(bool((v.amin(-1) + damping > tolerance * (v.amax(-1) + damping)).all()) for v in factors)


NamedMetric = Mapping[str, Tensor]  # name of a weight -> its entries of a diagonal metric, 0-d or in its shape


def optimizer_metric(optimizer: torch.optim.Optimizer, network: nn.Module) -> dict[str, Tensor]:
    r"""The metric :math:`M = \operatorname{diag}(\sqrt{\hat v} + \epsilon)` that an adaptive optimizer descends in.

    For Adam and AdamW, :math:`\hat v` is the second moment of the gradients divided by :math:`1 - \beta_2^t` (its
    maximum with `amsgrad`); for RMSprop it is the running mean (minus the squared mean if `centered`). M has the unit
    of the gradients of the training loss, which is usually a mean over data.

    Arguments:
        optimizer: The optimizer, after at least one step.
        network: The network whose weights it has trained, all of them.

    Example:
        >>> network = nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(network.parameters())
        >>> network(torch.tensor([[1.0, 3.0]])).sum().backward()
        >>> optimizer.step()
        >>> optimizer_metric(optimizer, network)["weight"]
        tensor([[1.0000, 3.0000]])
    """
    if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW | torch.optim.RMSprop):
        raise StructureError(
            f"Expected Adam, AdamW or RMSprop, got {type(optimizer).__name__}, whose metric is not known. Pass the "
            "metric as tensors by name, or None for an optimizer with the Euclidean metric, such as SGD."
        )
    groups = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    metric = {}
    for name, weight in weights_of(network).items():
        state = optimizer.state.get(weight)
        if not state:
            raise StructureError(
                f"Expected a second moment for every weight, got none for '{name}'. Take at least one step with every "
                "weight, or pass the metric of the trained ones as tensors."
            )
        metric[name] = _second_moment(groups[weight], state).sqrt() + groups[weight]["eps"]
    return metric


def flat_metric(metric: NamedMetric, weights: Weights) -> Float[Tensor, " P"]:
    """The entries of a metric in the flat order of the weights, checked: one above 0 for each.

    Arguments:
        metric: For each weight one number, or one per entry; other names are ignored.
        weights: The weights.

    Example:
        >>> flat_metric({"bias": torch.tensor(4.0)}, {"bias": torch.zeros(2)})
        tensor([4., 4.])
    """
    entries = checked_metric(metric, weights)
    return torch.cat([entries[name].detach().expand(weight.numel()) for name, weight in weights.items()])


def checked_metric(metric: NamedMetric, weights: Weights) -> dict[str, Tensor]:
    """The metric of each weight in its dtype, 0-d or (numel,); an error for the first that is no metric."""
    checked = {}
    for name, weight in weights.items():
        if name not in metric:
            raise StructureError(
                f"Expected a metric for every weight ({', '.join(weights)}), got none for '{name}'. Add it, or make "
                f"it a point weight, Prior(network, point='{name}')."
            )
        entries = metric[name].to(weight)
        if entries.ndim > 0 and entries.numel() != weight.numel():
            raise ShapeError(
                f"Expected one number or shape {tuple(weight.shape)} for the metric of '{name}', got shape "
                f"{tuple(entries.shape)}."
            )
        if not bool((entries.isfinite() & (entries > 0)).all()):
            raise NotPositiveDefiniteError(
                f"Expected a finite metric above 0 for '{name}', got an entry {entries.min().item():.1e}. Damp it, or "
                f"make it a point weight, Prior(network, point='{name}')."
            )
        checked[name] = entries.flatten() if entries.ndim > 0 else entries
    return checked


def _second_moment(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    """The second moment of the gradients as the optimizer divides by it."""
    if "square_avg" in state:  # RMSprop
        moment: Tensor = state["square_avg"]
        return (moment - state["grad_avg"].square()).clamp_min(0) if group["centered"] else moment
    moment = state["max_exp_avg_sq"] if group["amsgrad"] else state["exp_avg_sq"]
    return moment / (1 - float(group["betas"][1]) ** float(state["step"]))
