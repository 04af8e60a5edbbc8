r"""How sharp is a minimum, and according to which metric?

The trace and the eigenvalues of a Hessian H change with the parametrization; those of the operator
:math:`E = M^{-1} H` do not, for a metric M that is carried along (paper 3, Sec. 3). Here M is diagonal in the
coordinates of the weights and constant, such as Adam's, and no matrix of the size of H is formed. At a minimum this is
the Riemannian Hessian; elsewhere it lacks the Christoffel terms of a metric that varies.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, final

import torch
from torch import nn

from ..batches import Data
from ..errors import StructureError
from ..models import Model, as_model
from .estimators.estimate import Accuracy, Estimate, accuracy
from .estimators.krylov import estimate_log_det, top_eigenvalues
from .estimators.operators import MatrixFree, gauss_newton, loss_hessian
from .estimators.trace import estimate_trace
from .metrics.metric import NamedMetric, flat_metric, optimizer_metric

CURVATURES = {"hessian": loss_hessian, "ggn": gauss_newton}


@final
@dataclass(frozen=True)
class SharpnessConfig:
    r"""The curvature to measure, and the number of products with it for each quantity; 220 in all by default.

    Small networks need more for a given error than large ones: on networks of 2,000 weights, 90 products give the
    trace within 2 %, and 40 probes of 6 steps the log-determinant within 1 %. A log-determinant whose largest
    eigenvalue is a million times the damping or more needs more steps, or a larger damping.

    Arguments:
        curvature: The matrix H of the trace and the eigenvalues, the Hessian or the Gauss–Newton matrix.
        damping: :math:`\delta > 0` of the log-determinant, in units of the metric.
        trace_products: The number of products for the trace.
        num_eigenvalues: The number of eigenvalues.
        eigenvalue_steps: Steps for them, of `num_eigenvalues` products each.
        num_probes: Probes of the log-determinant.
        probe_steps: Steps for it, of twice `num_probes` products each.

    Example:
        >>> SharpnessConfig(curvature="ggn", trace_products=90).num_probes
        3
    """

    curvature: Literal["hessian", "ggn"] = "hessian"
    damping: float | int = 1.0
    trace_products: int = 60
    num_eigenvalues: int = 5
    eigenvalue_steps: int = 8
    num_probes: int = 3
    probe_steps: int = 20


DEFAULT = SharpnessConfig()


class Sharpness(NamedTuple):
    r"""Quantities of :math:`E = M^{-1} H` for one metric M, sums over data, each with its 95 % error.

    Arguments:
        trace: :math:`\operatorname{tr} E`.
        log_det: :math:`\log|I + M^{-1} G / \delta|`, with the Gauss–Newton G, which is never indefinite.
        eigenvalues: The largest eigenvalues of E, descending.

    Example:
        >>> network, data = nn.Linear(2, 3).double(), (torch.eye(2, dtype=torch.float64), torch.tensor([0, 1]))
        >>> found = sharpness(network, data, config=SharpnessConfig(num_eigenvalues=1)).naive
        >>> bool(found.trace.value >= found.eigenvalues.value[0] > 0)
        True
    """

    trace: Estimate
    log_det: Estimate
    eigenvalues: Estimate


class SharpnessPair(NamedTuple):
    """The sharpness of a network as it is usually measured, and as its metric measures it.

    Arguments:
        naive: With the Euclidean metric in the weights' present coordinates.
        aware: With the metric; None if there is none.
        num_params: The number of weights.

    Example:
        >>> network, data = nn.Linear(2, 3).double(), (torch.eye(2, dtype=torch.float64), torch.tensor([0, 1]))
        >>> found = sharpness(network, data, config=SharpnessConfig(num_eigenvalues=1))
        >>> found.aware is None, found.num_params
        (True, 9)
    """

    naive: Sharpness
    aware: Sharpness | None
    num_params: int


def sharpness(
    model: Model | nn.Module,
    data: Data,
    metric: NamedMetric | torch.optim.Optimizer | None = None,
    config: SharpnessConfig = DEFAULT,
    *,
    seed: int = 0,
) -> SharpnessPair:
    r"""The sharpness of the loss :math:`-\log p(D | \theta)` at the weights of a model, naive and metric-aware.

    Arguments:
        model: The model, or its network, in evaluation mode; θ are the weights that its prior covers.
        data: A pair of tensors, a `Dataset`, or an iterable of batches that can be read more than once.
        metric: The diagonal metric: tensors by weight name (one number, or one per entry), or an Adam, AdamW or
            RMSprop whose state holds it.
        config: The curvature, the damping and the number of products.
        seed: The seed of the probes and of the noise of an averaged network.

    Example:
        >>> network, x = nn.Linear(2, 3).double(), torch.eye(2, dtype=torch.float64)
        >>> metric = {name: torch.tensor(4.0) for name in ("weight", "bias")}
        >>> found = sharpness(network, (x, torch.tensor([0, 1])), metric, SharpnessConfig(num_eigenvalues=1))
        >>> bool((found.naive.trace.value / found.aware.trace.value).round() == 4)
        True
    """
    if config.curvature not in CURVATURES:
        raise StructureError(f"Expected curvature 'hessian' or 'ggn', got {config.curvature!r}.")
    model = as_model(model)
    if isinstance(metric, torch.optim.Optimizer):
        metric = optimizer_metric(metric, model.network)
    entries = None if metric is None else flat_metric(metric, model.weights)
    hessian = CURVATURES[config.curvature](model, data, seed=seed)
    ggn = gauss_newton(model, data, seed=seed)
    measure = partial(estimate_sharpness, config=config, seed=seed)
    aware = None if entries is None else measure(hessian.under(entries), ggn.under(entries))
    return SharpnessPair(measure(hessian, ggn), aware, hessian.size)


def estimate_sharpness(
    hessian: MatrixFree, ggn: MatrixFree, config: SharpnessConfig = DEFAULT, *, seed: int = 0
) -> Sharpness:
    """The sharpness of matrices known by their products.

    Arguments:
        hessian: The matrix for the trace and the eigenvalues, under the metric.
        ggn: The positive semi-definite one for the log-determinant, under the metric.
    """
    trace = estimate_trace(hessian, num_products=config.trace_products, seed=seed)
    log_det = estimate_log_det(
        ggn, config.damping, num_probes=config.num_probes, num_steps=config.probe_steps, seed=seed
    )
    return Sharpness(
        trace, log_det, top_eigenvalues(hessian, config.num_eigenvalues, num_steps=config.eigenvalue_steps, seed=seed)
    )


def sharpness_accuracy(
    hessian: MatrixFree, ggn: MatrixFree, config: SharpnessConfig = DEFAULT, *, num_seeds: int = 100
) -> dict[str, Accuracy]:
    """The accuracy of every quantity of `Sharpness`, by its name, for matrices of a few thousand rows."""
    values = torch.linalg.eigvalsh(hessian.to_dense().double().cpu()).flip(0)
    dense = ggn.to_dense().double().cpu() / config.damping
    log_det = torch.linalg.slogdet(dense + torch.eye(len(dense), dtype=torch.float64))[1]
    truths = {"trace": values.sum(), "log_det": log_det, "eigenvalues": values[: config.num_eigenvalues]}
    runs = [estimate_sharpness(hessian, ggn, config, seed=seed) for seed in range(num_seeds)]
    return {name: accuracy([getattr(run, name) for run in runs], truth) for name, truth in truths.items()}
