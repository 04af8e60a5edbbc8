r"""Probability densities over coordinates, per unit of the coordinates or of a metric's volume.

A density per unit of the coordinates changes by :math:`-\log|\det J|` from chart to chart, and its mode moves. Per
unit of the volume :math:`dV = \sqrt{\det M}\,d\theta` of a metric,

.. math:: \log q^M(\theta) = \log q(\theta) - \tfrac12 \log\det M(\theta),

it is a function of the point alone, as long as the metric is carried along (paper 3, Eq. (3) and (4)): its mode is
the same in every chart. Logarithms throughout, in nats. A log-density is a function of a point's coordinates, (P,),
to a number, in torch operations; `objects.Density` is the value of one at a point.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, hessian

from .._types import TensorMap
from ..errors import ChartError, NumericalError, StructureError
from ..likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from .charts.chart import CARTESIAN, Chart
from .metrics.fisher import fisher_metric
from .metrics.metric import Metric
from .objects import positive_log_det


def lebesgue_log_density(log_density: TensorMap, chart: Chart) -> TensorMap:
    r"""The log-density in ψ per unit of ψ, :math:`\log q(\theta) - \log|\det J(\theta)|` at ψ = φ(θ).

    The change of variables; its mode depends on the chart.

    Arguments:
        log_density: The log-density in θ per unit of θ.
        chart: The chart from θ to ψ.

    Example:
        >>> from covary.geometry import scaling
        >>> lebesgue_log_density(lambda theta: -theta.sum(), scaling(2.0))(torch.zeros(1))
        tensor(-0.6931)
    """
    return partial(_lebesgue, log_density, chart)


def riemannian_log_density(log_density: TensorMap, metric: Metric, chart: Chart = CARTESIAN) -> TensorMap:
    r"""The log-density in ψ per unit of a metric's volume, :math:`\log q_\psi - \frac12\log\det(J^{-\top}MJ^{-1})`.

    Evaluated in ψ, with the metric carried there: the same number at a point in every chart.

    Arguments:
        log_density: The log-density in θ per unit of θ.
        metric: The metric; with `euclidean_metric()`, that of θ, it is the density per unit of θ in every chart.
        chart: The chart from θ to ψ; ψ = θ by default.

    Example:
        >>> from covary.geometry import euclidean_metric, scaling
        >>> density = riemannian_log_density(lambda theta: -theta.sum(), euclidean_metric(), scaling(2.0))
        >>> float(density(torch.tensor([2.0])))  # at θ = 1, as in θ
        -1.0
    """
    return partial(_riemannian, log_density, metric.to(chart))


def find_mode(log_density: TensorMap, start: Float[Tensor, " P"], *, max_steps: int = 100) -> Float[Tensor, " P"]:
    r"""The local maximum of a smooth log-density that is uphill of a start, to rounding; for small P.

    Newton steps :math:`|H|^{-1} g`, with the eigenvalues of minus the Hessian taken by their size so that they always
    lead uphill, halved until they gain and stay inside the domain.

    Arguments:
        log_density: The log-density, per unit of the coordinates or of a metric's volume.
        start: The start.
        max_steps: The largest number of steps.

    Example:
        >>> find_mode(lambda theta: -(theta - 2).square().sum(), torch.zeros(1))
        tensor([2.])
    """
    point: Tensor = start.detach()
    precision = torch.finfo(start.dtype).eps
    for _ in range(max_steps):
        gradient = grad(log_density)(point)
        values, vectors = torch.linalg.eigh(-hessian(log_density)(point))
        sizes = values.abs().clamp_min(max(precision * float(values.abs().max()), torch.finfo(start.dtype).tiny))
        step: Tensor = vectors @ ((vectors.mT @ gradient) / sizes)
        # twice the gain that the quadratic model expects: the squared distance to the mode in standard deviations
        expected = float(gradient @ step)
        # growth that fades toward infinity also expects ever less, but its steps do not shrink
        if expected <= precision and float(step.norm()) <= precision**0.5 * (1 + float(point.norm())):
            _require_maximum(values)
            return point + step
        point = _climb(log_density, point, step, expected)
    raise NumericalError(
        f"Expected a mode within {max_steps} steps, got log-density {float(log_density(point)):g} and a next step that "
        f"would gain {expected / 2:.1e}. Start closer, set `max_steps` higher, or check that the maximum is not at "
        "infinity or at an edge."
    )


@final
@dataclass(frozen=True, eq=False)
class Jeffreys:
    r"""Jeffreys' prior: the uniform density of the Fisher metric, :math:`q = \sqrt{\det F} / V`.

    Per unit of the metric's volume it is the constant 1/V, with V the total volume of the model; if that is infinite
    the prior is improper and has no normalized density.

    Arguments:
        metric: The Fisher information F of one observation, in the coordinates of its chart.
        volume: The total volume :math:`V = \int \sqrt{\det F}\,d\theta`; `math.inf` if it is infinite.

    Example:
        >>> prior = jeffreys(Bernoulli())
        >>> prior.is_proper, round(float(prior.log_density(torch.zeros(1))), 4)
        (True, -1.8379)
    """

    metric: Metric
    volume: float | int

    def __post_init__(self) -> None:
        if not self.volume > 0:
            raise StructureError(f"Expected a volume above 0, or math.inf, got {self.volume}.")

    @property
    def is_proper(self) -> bool:
        """Whether the prior can be normalized."""
        return math.isfinite(self.volume)

    def to(self, chart: Chart) -> "Jeffreys":
        """The same prior in the coordinates of another chart."""
        return replace(self, metric=self.metric.to(chart))

    def log_volume(self, coordinates: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        r"""The logarithm :math:`\frac12\log\det F`: the prior per unit of the coordinates without its constant."""
        return 0.5 * positive_log_det(self.metric.matrix(coordinates), self.metric.name)

    def log_density(self, coordinates: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        r"""The log-density :math:`\frac12\log\det F - \log V` per unit of the coordinates, normalized."""
        if not self.is_proper:
            raise NumericalError(
                "Expected a proper Jeffreys prior, got an improper one: the volume of its Fisher metric is infinite, "
                "so it has no normalized density and no evidence. Use log_volume if the constant does not matter; else "
                "bound the domain, or choose a proper prior."
            )
        return self.log_volume(coordinates) - math.log(self.volume)


def jeffreys(likelihood: Likelihood, num_outputs: int = 1) -> Jeffreys:
    r"""Jeffreys' prior over the outputs f of a likelihood, whose Fisher information is its curvature Λ(f).

    Bernoulli: :math:`V = \pi^C`. Categorical, in the C − 1 logits relative to the last class, without which Λ is
    singular: :math:`V = \pi^{C/2} / \Gamma(C/2)`, at every temperature. Gaussian, in the mean: flat and improper.

    Arguments:
        likelihood: Bernoulli, Categorical or Gaussian; for others, make a `Jeffreys` of metric and volume.
        num_outputs: The number C of outputs, 2 or more for Categorical.

    Example:
        >>> jeffreys(Categorical(), 3).volume == 2 * math.pi
        True
        >>> jeffreys(Gaussian()).is_proper
        False
    """
    if num_outputs < (2 if isinstance(likelihood, Categorical) else 1):
        raise StructureError(
            f"Expected at least 2 outputs for Categorical and 1 for other likelihoods, got {num_outputs} for "
            f"{type(likelihood).__name__}."
        )
    match likelihood:
        case Bernoulli():
            return Jeffreys(fisher_metric(_one_datum, likelihood), math.pi**num_outputs)
        case Categorical():
            volume = math.pi ** (num_outputs / 2) / math.gamma(num_outputs / 2)
            return Jeffreys(fisher_metric(_relative_logits, likelihood), volume)
        case Gaussian():
            return Jeffreys(fisher_metric(_one_datum, likelihood), math.inf)
    raise StructureError(
        f"Expected Bernoulli, Categorical or Gaussian, got {type(likelihood).__name__}, whose volume is not known. "
        "Make a Jeffreys(metric, volume) with the integral of the root of the determinant, or math.inf."
    )


def _lebesgue(log_density: TensorMap, chart: Chart, psi: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    theta = chart.inverse(psi)
    return log_density(theta) - chart.log_det(theta)


def _riemannian(log_density: TensorMap, metric: Metric, psi: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    return _lebesgue(log_density, metric.chart, psi) - 0.5 * positive_log_det(metric.matrix(psi), metric.name)


def _climb(log_density: TensorMap, point: Tensor, step: Tensor, expected: float) -> Float[Tensor, " P"]:
    """The point after the step, halved until it gains."""
    before = float(log_density(point))
    slack = 10 * torch.finfo(point.dtype).eps * abs(before)  # rounding of the log-density itself
    scale = 1.0
    while scale > torch.finfo(point.dtype).eps:
        try:
            if float(log_density(point + scale * step)) >= before + 1e-4 * scale * expected - slack:
                return point + scale * step
        except ChartError:
            pass  # outside the chart: a smaller step
        scale /= 2
    raise NumericalError(
        f"Expected a log-density that grows along its gradient, got no growth from {before:g}. It must be finite, "
        "smooth and bounded: look for NaN, or for a start at the edge of its domain."
    )


def _require_maximum(values: Float[Tensor, " P"]) -> None:
    if not bool(values.min() > torch.finfo(values.dtype).eps * values.max()):
        raise NumericalError(
            "Expected a maximum, got a stationary point where minus the Hessian has eigenvalues from "
            f"{values.min().item():.1e} to {values.max().item():.1e}. Start off a saddle point; a density that is flat "
            "along some direction has no mode."
        )


def _one_datum(outputs: Float[Tensor, " C"]) -> Float[Tensor, "1 C"]:
    return outputs.unsqueeze(0)


def _relative_logits(logits: Float[Tensor, " K"]) -> Float[Tensor, "1 C"]:
    """The logits of one datum, that of the last class 0."""
    return torch.cat([logits, logits.new_zeros(1)]).unsqueeze(0)
