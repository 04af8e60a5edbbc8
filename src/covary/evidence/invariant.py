r"""The evidence in the coordinates of any chart, under an explicit metric: as it is usually computed, and invariant.

The evidence is an integral over the volume :math:`dV = \sqrt{\det M}\,d\psi` of a metric. Laplace's method in the
coordinates ψ of a chart gives

.. math:: \log Z = \log p(D|\psi) + \log p^M(\psi) + \tfrac P2 \log 2\pi - \tfrac12 \log\det(M^{-1} H),

with the prior per unit of the volume, :math:`p^M = p_\psi / \sqrt{\det M}`, and H the Hessian of minus the log joint
with the connection of the metric. Each term is a function of the point alone. The naive evidence is the formula for θ
applied in ψ: log p as a function, and :math:`\log\det H` without the metric. Its error is
:math:`\log|\det \partial\psi / \partial\theta|` (paper 3, Sec. 5.2; its Table 1 calls all but the first term "Rest").

Dense, for up to some hundred weights. All derivatives are taken in ψ.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from .._text import require_choice
from .._types import SampleAveraging, TensorMap, Weights
from ..batches import Data, IndexedBatch, as_batches
from ..curvature.coverage import require_independence
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
from ..likelihoods import given
from ..models import Model, as_model
from .terms import EvidenceTerms, log_volume

EUCLIDEAN = euclidean_metric()


class ChartEvidence(NamedTuple):
    r"""The evidence at one point in the coordinates of one chart.

    Arguments:
        proper: The terms with the metric carried along: the same in every chart.
        naive: The terms without it: those of `proper` only where the chart has a Jacobian of determinant 1.
        mode_correction: :math:`\frac12 g^\top H^{-1} g`, the gain of moving to the mode; not part of either sum.

    Example:
        >>> import torch, covary
        >>> data = torch.randn(8, 2), torch.arange(8) % 2
        >>> found = covary.evidence.chart_evidence(torch.nn.Linear(2, 2), data)
        >>> torch.testing.assert_close(found.proper.log_evidence, found.naive.log_evidence)  # Cartesian: no difference
    """

    proper: EvidenceTerms
    naive: EvidenceTerms
    mode_correction: Float[Tensor, ""]


@torch.no_grad()
def chart_evidence(
    model: nn.Module | Model,
    data: Data,
    chart: Chart = CARTESIAN,
    metric: Metric = EUCLIDEAN,
    *,
    curvature: Literal["ggn", "hessian"] = "ggn",
    seed: int = 0,
) -> ChartEvidence:
    r"""The Laplace evidence at the network's weights, computed in the coordinates of a chart, proper and naive.

    With the Euclidean metric of the weights and curvature "ggn" the proper one is that of
    `log_evidence(model, data, "full")`, in every chart, at a mode or not. Sums over data, higher is better.

    Arguments:
        model: The model, or a network of any layers; call `eval()` first if it has `BatchNorm` or `Dropout`. The
            prior is a function of its weights θ; that of the chart's coordinates follows.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        chart: The chart over the flat vector of the prior's weights, such as
            `network_chart(model.weights, {"*.weight": polar_of})`.
        metric: The metric; that of the weights by default.
        curvature: "ggn", or "hessian", which must be positive definite.
        seed: The seed of the augmentation's noise.

    Example:
        >>> import torch, covary
        >>> from covary.geometry import network_chart, polar_of
        >>> model = covary.Model(torch.nn.Linear(2, 2).double())
        >>> data = torch.randn(8, 2).double(), torch.arange(8) % 2
        >>> polar = network_chart(model.weights, {"weight": polar_of})
        >>> found = covary.evidence.chart_evidence(model, data, polar)
        >>> expected = covary.log_evidence(model, data, "full").log_evidence
        >>> torch.testing.assert_close(found.proper.log_evidence, expected)
    """
    check_form(curvature)
    model = as_model(model)
    batches = list(as_batches(data).matching(model.network))
    require_independence(model.network)
    weights = model.weights
    outputs = [_outputs(model.network, weights, batch, seed) for batch in batches]
    for function, batch in zip(outputs, batches, strict=True):
        model.likelihood.check(function(flatten(weights)), batch.y)
    point = Point(flatten(weights)).to(chart)

    def log_prior(theta: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        return model.prior.log_density(unflatten(theta, weights))

    def log_likelihood(theta: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        parts = zip(outputs, batches, strict=True)
        return torch.stack([model.likelihood.log_prob(function(theta), batch.y) for function, batch in parts]).sum()

    per_volume = riemannian_log_density(log_prior, metric)

    def log_joint(theta: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        return log_likelihood(theta) + per_volume(theta)

    if curvature == "hessian":
        form = riemannian_hessian(lambda theta: -log_joint(theta), metric, point)
    else:
        form = _ggn(model, outputs, batches, point) + riemannian_hessian(lambda t: -per_volume(t), metric, point)
    differential = grad(lambda psi: log_joint(chart.inverse(psi)))(point.coordinates)
    naive = EvidenceTerms(
        log_likelihood=log_likelihood(point.cartesian).double(),
        log_prior=log_prior(point.cartesian),
        log_volume=log_volume(positive_log_det(form.components, "the posterior's precision"), model.prior.num_params),
        gradient_norm=(differential @ metric.to(chart).solve(point.coordinates, differential)).sqrt(),
        mode_correction=None,
        num_data=sum(len(batch.x) for batch in batches),
        structures=dict.fromkeys(weights, "full"),
    )
    volume = 0.5 * positive_log_det(metric.at(point).components, metric.name).double()
    in_metric = riemannian_log_density(log_prior, metric, chart)(point.coordinates)
    proper = naive._replace(log_prior=in_metric, log_volume=naive.log_volume + volume)
    return ChartEvidence(proper, naive, 0.5 * _squared_length(form.components, differential))


def check_form(curvature: object) -> None:
    """Raise `StructureError` for anything but "ggn" and "hessian"."""
    require_choice("a curvature", curvature, ("ggn", "hessian"))


def _ggn(model: Model, outputs: Sequence[TensorMap], batches: Sequence[IndexedBatch], point: Point) -> BilinearForm:
    """The sum of JᵀΛJ over batches in the point's chart: it needs no connection, the chain rule makes it transform."""
    metrics = [
        fisher_metric(partial(_composed, function, point.chart), given(model.likelihood, batch.y))
        for function, batch in zip(outputs, batches, strict=True)
    ]
    return BilinearForm(torch.stack([metric.matrix(point.coordinates) for metric in metrics]).sum(0), point)


def parametrization_of(network: nn.Module) -> str:
    """The coordinates of a network's parameters: "Cartesian", or the parametrizations that compute its weights.

    Two networks with the same function in different coordinates have different naive evidences. It detects
    `torch.nn.utils.parametrize` and the older hooks of `weight_norm` and `spectral_norm`.

    Example:
        >>> import torch, covary
        >>> covary.evidence.parametrization_of(torch.nn.Linear(2, 2))
        'Cartesian'
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


def _outputs(network: nn.Module, weights: Weights, batch: IndexedBatch, seed: int) -> TensorMap:
    """The outputs of a batch as a function of the flat weights."""
    arguments = {"index": batch.identity, "seed": seed} if isinstance(network, SampleAveraging) else {}
    return lambda theta: functional_call(network, unflatten(theta, weights), (batch.x,), arguments).flatten(1)


def _composed(function: TensorMap, chart: Chart, psi: Float[Tensor, " P"]) -> Tensor:
    return function(chart.inverse(psi))


def _squared_length(form: Float[Tensor, "P P"], covector: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    r"""The number :math:`w^\top H^{-1} w`."""
    root = positive_root(form, "the posterior's precision")
    return torch.linalg.solve_triangular(root, covector.unsqueeze(-1), upper=False).square().sum()
