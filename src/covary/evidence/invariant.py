r"""The evidence in the coordinates of any chart, under an explicit metric: as it is usually computed, and invariant.

The evidence is an integral over the volume :math:`dV = \sqrt{\det M}\,d\psi` of a metric. Laplace's method in the
coordinates ψ of a chart gives

.. math:: \log Z = \log p(D|\psi) + \log p^M(\psi) + \tfrac P2 \log 2\pi - \tfrac12 \log\det(M^{-1} H),

with the prior per unit of the volume, :math:`p^M = p_\psi / \sqrt{\det M}`, and H the Hessian of minus the log joint
with the connection of the metric. Each term is a function of the point alone. The naive evidence is the formula of θ
with what is at hand in ψ: log p as a function, and :math:`\log\det H` without the metric. It is off by
:math:`\log|\det \partial\psi / \partial\theta|` (paper 3, Sec. 5.2; its Table 1 calls all but the first term "Rest").

Dense, for up to some hundred weights. Everything is differentiated in ψ, nothing carried over from θ.
"""

import math
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from .._types import SampleAveraging, TensorMap, Weights
from ..batches import Data, IndexedBatch, as_batches
from ..curvature.coverage import require_coverage
from ..errors import StructureError
from ..geometry import (
    CARTESIAN,
    BilinearForm,
    Chart,
    Metric,
    Point,
    euclidean_metric,
    fisher_metric,
    flatten,
    unflatten,
)
from ..geometry.densities import riemannian_log_density
from ..geometry.hessian import riemannian_hessian
from ..geometry.objects import positive_log_det, positive_root
from ..likelihoods import Likelihood
from ..priors import Prior
from .terms import EvidenceTerms

EUCLIDEAN = euclidean_metric()


class ChartEvidence(NamedTuple):
    """The evidence at one point in the coordinates of one chart.

    Arguments:
        proper: The terms with the metric carried along: the same in every chart.
        naive: The terms without it: those of `proper` only where the chart has a Jacobian of determinant 1.
    """

    proper: EvidenceTerms
    naive: EvidenceTerms


class _Model(NamedTuple):
    """Functions of Cartesian θ, and the outputs of each batch."""

    outputs: list[TensorMap]
    batches: list[IndexedBatch]
    likelihood: Likelihood
    log_prior: TensorMap

    def log_likelihood(self, theta: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        parts = zip(self.outputs, self.batches, strict=True)
        return torch.stack([self.likelihood.log_prob(outputs(theta), batch.y) for outputs, batch in parts]).sum()


@torch.no_grad()
def chart_evidence(
    network: nn.Module,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    chart: Chart = CARTESIAN,
    metric: Metric = EUCLIDEAN,
    *,
    curvature: str = "ggn",
    mode_correction: bool = False,
    batch_size: int | None = None,
    seed: int = 0,
) -> ChartEvidence:
    r"""The Laplace evidence at the network's weights, computed in the coordinates of a chart, proper and naive.

    With the Euclidean metric of the weights and curvature "ggn" the proper one is that of
    `log_evidence(..., curvature="full")`, in every chart, at a mode or not. Sums over data, higher is better.

    Arguments:
        network: The network, averaged or plain, in evaluation mode where it has modes; of any layers.
        likelihood: The likelihood.
        prior: The prior, whose weights θ are; a function of θ, that of the chart's coordinates follows.
        data: A pair of tensors, a `Dataset`, or an iterable of batches.
        chart: The chart over the flat vector of the prior's weights, such as
            `network_chart(prior.weights(network), {"*.weight": polar_of})`.
        metric: The metric; that of the weights by default.
        curvature: "ggn", or "hessian", which must be positive definite.
        mode_correction: Whether to add :math:`\frac12 g^\top H^{-1} g`, the gain of moving to the mode.
        batch_size: How many data go through at once, where the data can be cut.
        seed: The seed of the augmentation's noise.
    """
    if curvature not in ("ggn", "hessian"):
        raise StructureError(f"curvature must be 'ggn' or 'hessian'; {curvature!r} came. Choose one of these.")
    require_coverage(network, {})
    weights = prior.weights(network)
    model = _model(network, likelihood, prior, list(as_batches(data, batch_size)), seed)
    point = Point(flatten(weights)).to(chart)
    per_volume = riemannian_log_density(model.log_prior, metric)
    form = _precision(model, per_volume, metric, point, curvature)
    differential = grad(lambda psi: _log_joint(model, per_volume, chart.inverse(psi)))(point.coordinates)
    steepest = metric.to(chart).solve(point.coordinates, differential)
    constant = 0.5 * math.log(2 * math.pi) * len(point.coordinates)
    naive = EvidenceTerms(
        log_likelihood=model.log_likelihood(point.cartesian).double(),
        log_prior=model.log_prior(point.cartesian),
        log_volume=constant - 0.5 * positive_log_det(form.components, "the posterior's precision").double(),
        gradient_norm=(differential @ steepest).sqrt(),
        mode_correction=0.5 * _squared_length(form.components, differential) if mode_correction else None,
        num_data=sum(len(batch.x) for batch in model.batches),
        structures=dict.fromkeys(weights, "full"),
    )
    volume = 0.5 * positive_log_det(metric.at(point).components, metric.name).double()
    log_prior = riemannian_log_density(model.log_prior, metric, chart)(point.coordinates)
    return ChartEvidence(naive._replace(log_prior=log_prior, log_volume=naive.log_volume + volume), naive)


def parametrization_of(network: nn.Module) -> str:
    """The coordinates that the parameters of a network are: "Cartesian", or what computes its weights from others.

    Two networks with the same function in different coordinates have different naive evidences. Found are
    `torch.nn.utils.parametrize` and the older hooks of `weight_norm` and `spectral_norm`.
    """
    found: dict[str, list[str]] = {}
    for name, module in network.named_modules():
        if isinstance(module, ParametrizationList):
            kinds = " after ".join(type(part).__name__.lstrip("_") for part in reversed(module))
            found.setdefault(kinds, []).append(name.replace("parametrizations.", ""))
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm | SpectralNorm):
                found.setdefault(type(hook).__name__, []).append(f"{name}.{hook.name}".lstrip("."))
    return "; ".join(f"{kind} of {', '.join(names)}" for kind, names in found.items()) or "Cartesian"


def _model(network: nn.Module, likelihood: Likelihood, prior: Prior, batches: list[IndexedBatch], seed: int) -> _Model:
    weights = prior.weights(network)
    outputs = [_outputs(network, weights, batch, seed) for batch in batches]
    for function, batch in zip(outputs, batches, strict=True):
        likelihood.check(function(flatten(weights)), batch.y)
    return _Model(outputs, batches, likelihood, lambda theta: prior.log_density(unflatten(theta, weights)))


def _outputs(network: nn.Module, weights: Weights, batch: IndexedBatch, seed: int) -> TensorMap:
    """The outputs of a batch as a function of the flat weights."""
    arguments = {"index": batch.identity, "seed": seed} if isinstance(network, SampleAveraging) else {}
    return lambda theta: functional_call(network, unflatten(theta, weights), (batch.x,), arguments)


def _log_joint(model: _Model, per_volume: TensorMap, theta: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    return model.log_likelihood(theta) + per_volume(theta)


def _precision(model: _Model, per_volume: TensorMap, metric: Metric, point: Point, curvature: str) -> BilinearForm:
    """The form H of the posterior in the point's chart, by derivatives there."""
    if curvature == "hessian":
        return riemannian_hessian(lambda theta: -_log_joint(model, per_volume, theta), metric, point)
    # a sum of JᵀΛJ needs no connection: the chain rule alone makes it transform
    in_chart = [partial(_composed, outputs, point.chart) for outputs in model.outputs]
    parts = [fisher_metric(outputs, model.likelihood).matrix(point.coordinates) for outputs in in_chart]
    ggn = BilinearForm(torch.stack(parts).sum(0), point)
    return ggn + riemannian_hessian(lambda theta: -per_volume(theta), metric, point)


def _composed(function: TensorMap, chart: Chart, psi: Float[Tensor, " P"]) -> Tensor:
    return function(chart.inverse(psi))


def _squared_length(form: Float[Tensor, "P P"], covector: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    r"""The number :math:`w^\top H^{-1} w`."""
    root = positive_root(form, "the posterior's precision")
    return torch.linalg.solve_triangular(root, covector.unsqueeze(-1), upper=False).square().sum()
