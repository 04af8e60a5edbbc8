r"""How sharp is a minimum, and according to which metric?

The trace and the eigenvalues of a Hessian H change with the parametrization; those of the operator
:math:`E = M^{-1} H` do not, for a metric M that is carried along (paper 3, Sec. 3). Here M is diagonal in the
coordinates of the weights and constant, such as Adam's, and nothing of the size of H is formed. At a minimum this is
the Riemannian Hessian; elsewhere it lacks the Christoffel terms of a metric that varies.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from ..batches import Data
from ..curvature.coverage import select_weights
from ..errors import StructureError
from ..likelihoods import Likelihood
from .estimators.estimate import Estimate
from .estimators.lanczos import top_eigenvalues
from .estimators.log_det import estimate_log_det
from .estimators.operators import MatrixFree, gauss_newton, loss_hessian
from .estimators.trace import estimate_trace
from .metrics.optimizer import NamedMetric, flat_metric, optimizer_metric

CURVATURES = {"hessian": loss_hessian, "ggn": gauss_newton}


class Effort(NamedTuple):
    """How many products with the curvature each quantity may take; 220 in all by default.

    Small networks need more for a given error than large ones: on networks of 2,000 weights, 90 products give the
    trace within 2 %, and 40 probes of 6 steps the log-determinant within 1 %. A log-determinant whose largest
    eigenvalue is a million times the damping or more needs more steps, or a larger damping.

    Arguments:
        trace_products: For the trace.
        num_eigenvalues: How many eigenvalues.
        eigenvalue_steps: Steps for them, of `num_eigenvalues` products each.
        num_probes: Probes of the log-determinant.
        probe_steps: Steps for it, of twice `num_probes` products each.
    """

    trace_products: int = 60
    num_eigenvalues: int = 5
    eigenvalue_steps: int = 8
    num_probes: int = 3
    probe_steps: int = 20


DEFAULT_EFFORT = Effort()


class Sharpness(NamedTuple):
    r"""Quantities of :math:`E = M^{-1} H` for one metric M, sums over data, each with its 95 % error.

    Arguments:
        trace: :math:`\operatorname{tr} E`.
        log_det: :math:`\log|I + M^{-1} G / \delta|`, with the Gauss–Newton G, which is never indefinite.
        eigenvalues: The largest eigenvalues of E, descending.
    """

    trace: Estimate
    log_det: Estimate
    eigenvalues: Estimate


class SharpnessPair(NamedTuple):
    """The sharpness of a network as it is usually measured, and as its metric measures it.

    Arguments:
        naive: With the Euclidean metric in the weights' present coordinates.
        aware: With the metric; None where none was given.
        num_params: The number of weights.
    """

    naive: Sharpness
    aware: Sharpness | None
    num_params: int


def sharpness(
    network: nn.Module,
    likelihood: Likelihood,
    data: Data,
    *,
    metric: NamedMetric | torch.optim.Optimizer | None = None,
    weights: Iterable[str] | None = None,
    curvature: str = "hessian",
    damping: float | int = 1.0,
    effort: Effort = DEFAULT_EFFORT,
    batch_size: int | None = None,
    seed: int = 0,
) -> SharpnessPair:
    r"""The sharpness of the loss :math:`-\log p(D | \theta)` at the network's weights, naive and metric-aware.

    Arguments:
        network: The network, (N, ...) -> (N, C), in evaluation mode.
        likelihood: The likelihood.
        data: A pair of tensors, a `Dataset`, or an iterable of batches that can be read more than once.
        metric: The diagonal metric: tensors by weight name (one number, or one per entry), or an Adam, AdamW or
            RMSprop whose state holds it.
        weights: The names of the weights, such as `prior.names`; all weights by default.
        curvature: "hessian" or "ggn", for the trace and the eigenvalues.
        damping: :math:`\delta > 0` of the log-determinant, in units of the metric.
        effort: How many products may be spent.
        batch_size: The number of data in a batch, for data that can be cut.
        seed: The seed of the probes and of the noise of an averaged network.
    """
    if curvature not in CURVATURES:
        raise StructureError(f"curvature must be 'hessian' or 'ggn'; {curvature!r} came. Choose one of these.")
    selected = select_weights(network, weights)
    if isinstance(metric, torch.optim.Optimizer):
        metric = optimizer_metric(metric, network)
    entries = None if metric is None else flat_metric(metric, selected)
    make = CURVATURES[curvature]
    hessian = make(network, likelihood, data, weights=selected, batch_size=batch_size, seed=seed)
    ggn = gauss_newton(network, likelihood, data, weights=selected, batch_size=batch_size, seed=seed)
    measure = partial(estimate_sharpness, damping=damping, effort=effort, seed=seed)
    aware = None if entries is None else measure(hessian.under(entries), ggn.under(entries))
    return SharpnessPair(measure(hessian, ggn), aware, hessian.size)


def estimate_sharpness(
    hessian: MatrixFree,
    ggn: MatrixFree,
    damping: float | int = 1.0,
    *,
    effort: Effort = DEFAULT_EFFORT,
    seed: int = 0,
) -> Sharpness:
    """The sharpness of matrices known by their products.

    Arguments:
        hessian: The matrix for the trace and the eigenvalues, under the metric.
        ggn: The positive semi-definite one for the log-determinant, under the metric.
        damping: Its δ.
        effort: How many products may be spent.
        seed: The seed of the probes.
    """
    return Sharpness(
        estimate_trace(hessian, num_products=effort.trace_products, seed=seed),
        estimate_log_det(ggn, damping, num_probes=effort.num_probes, num_steps=effort.probe_steps, seed=seed),
        top_eigenvalues(hessian, effort.num_eigenvalues, num_steps=effort.eigenvalue_steps, seed=seed),
    )
