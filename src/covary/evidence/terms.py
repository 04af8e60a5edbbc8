r"""The three terms of the evidence, for any structured curvature."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import Weights
from ..curvature.passes import CurvatureStatistics
from ..curvature.registry import joined_shifts
from ..linalg import Block
from ..models import Model


class EvidenceTerms(NamedTuple):
    r"""The Laplace evidence :math:`\log Z`, higher is better, as the sum of its terms; sums over data.

    Arguments:
        log_likelihood: :math:`\log p(D | \theta, \eta)`.
        log_prior: :math:`\log p(\theta | \delta)`.
        log_volume: :math:`\frac P2 \log 2\pi - \frac12 \log|H + \delta|`, the log-volume of the posterior.
        gradient_norm: :math:`\|g\|`, :math:`g = \nabla_\theta \log p(D, \theta)`: zero at a mode. None where it was not
            requested.
        mode_correction: :math:`\frac12 g^\top (H + \delta)^{-1} g`, part of the sum where it was requested.
        num_data: The number of data.
        structures: The structure of each weight's block.
        correction: The nats that the log-volume of the whole Gauss–Newton matrix is above that of the structure; part
            of `log_volume` where it was requested.
        standard_error: The standard error of the log-evidence as an estimate of that of the whole Gauss–Newton matrix:
            0 where it is exact, None where no correction was requested.
        mode_distance: :math:`s^\top H s / \gamma`, how far the outputs are from those at the mode, with the step
            :math:`s = (H + \delta)^{-1} g` to the maximum of a quadratic log joint and the effective number of
            parameters :math:`\gamma = \operatorname{tr} H (H + \delta)^{-1}`: 0 at the mode, 1 on average for a sample
            from the posterior. None without g.

    Example:
        >>> import torch, covary
        >>> data = torch.randn(8, 4), torch.arange(8) % 3
        >>> terms = covary.log_evidence(torch.nn.Linear(4, 3), data)
        >>> terms.num_data, terms.structures["weight"]
        (8, 'kron')
    """

    log_likelihood: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]
    log_volume: Float[Tensor, ""]
    gradient_norm: Float[Tensor, ""] | None
    mode_correction: Float[Tensor, ""] | None
    num_data: int
    structures: Mapping[str, str]
    correction: Float[Tensor, ""] | None = None
    standard_error: Float[Tensor, ""] | None = None
    mode_distance: Float[Tensor, ""] | None = None

    @property
    def log_evidence(self) -> Float[Tensor, ""]:
        r"""The sum :math:`\log Z` of the terms, with the mode correction where it was requested."""
        total = self.log_likelihood + self.log_prior + self.log_volume
        return total if self.mode_correction is None else total + self.mode_correction


def evidence_terms(
    model: Model, statistics: CurvatureStatistics, *, weights: Weights | None = None, mode_correction: bool = False
) -> EvidenceTerms:
    """The terms for the statistics of a pass, differentiable in the prior and in the statistics.

    Arguments:
        model: The model; its prior may have changed since the pass, the eigenvalues stay.
        weights: The weights of the pass; the network's by default.
        mode_correction: Whether the correction is part of the sum; needs the statistics' gradient.
    """
    curvature, shifts = statistics.curvature, joined_shifts(statistics.curvature, model)
    constants = {n: weight.detach() for n, weight in (model.weights if weights is None else weights).items()}
    gradient = quadratic = distance = None
    if statistics.gradient is not None:
        gradient = _joint_gradient(statistics.gradient, model, constants)
        # before the log-determinant, whose eigenvalues come with the eigenvectors that this needs
        (step,) = curvature.solve(gradient[None], shifts)
        quadratic = gradient @ step
        effective = curvature.effective_dimension(shifts).detach()
        along = quadratic.detach() - _prior_product(step.detach(), model, constants)  # sᵀHs = sᵀ(g - δs)
        distance = along.clamp_min(0.0) / effective.clamp_min(torch.finfo(effective.dtype).eps)
    assert quadratic is not None or not mode_correction, "the correction needs the pass's gradient"
    return EvidenceTerms(
        log_likelihood=statistics.log_likelihood,
        log_prior=model.prior.log_density(constants),
        log_volume=log_volume(curvature.logdet(shifts), curvature.size),
        gradient_norm=None if gradient is None else gradient.norm(),
        mode_correction=0.5 * quadratic if mode_correction and quadratic is not None else None,
        num_data=statistics.num_data,
        structures=_structures(curvature, constants),
        mode_distance=distance,
    )


def log_volume(log_det: Float[Tensor, ""], num_params: int) -> Float[Tensor, ""]:
    r"""The log-volume :math:`\frac P2 \log 2\pi - \frac12 \log|M|` of a Gaussian with precision M."""
    # in double: the constant of a million weights would round away nats that models are compared by
    return 0.5 * (num_params * math.log(2 * math.pi) - log_det.double())


def prior_log_det(model: Model) -> Float[Tensor, ""]:
    r"""The log-determinant :math:`\log|\delta|` of the prior's precision, in double."""
    shifts = model.prior.shifts()
    logs = [shifts[name].log().double().expand(weight.numel()).sum() for name, weight in model.weights.items()]
    return torch.stack(logs).sum()


def _joint_gradient(gradient: Mapping[str, Tensor], model: Model, weights: Weights) -> Float[Tensor, " P"]:
    r"""The gradient :math:`g = \nabla_\theta \log p(D, \theta)`, flat, in the order of the weights."""
    shifts = model.prior.shifts()
    return torch.cat([gradient[name].flatten() - shifts[name] * weight.flatten() for name, weight in weights.items()])


def _prior_product(step: Float[Tensor, " P"], model: Model, weights: Weights) -> Float[Tensor, ""]:
    r"""The product :math:`s^\top \delta s`."""
    shifts, parts = model.prior.shifts(), step.split([weight.numel() for weight in weights.values()])
    squares = [shifts[name].detach() * part.square() for name, part in zip(weights, parts, strict=True)]
    return torch.cat(squares).sum()


def _structures(curvature: Block, weights: Weights) -> dict[str, str]:
    names = {"Kron": "kron", "Dense": "dense", "Diagonal": "diagonal"}
    if len(curvature.blocks) == 1 and next(iter(curvature.blocks)) not in weights:
        return dict.fromkeys(weights, "full")
    return {name: names[type(block).__name__] for name, block in curvature.blocks.items()}
