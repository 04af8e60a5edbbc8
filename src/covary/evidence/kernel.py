r"""The evidence by the tangent kernel: the full curvature of few data and many weights."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .._errors import StructureError
from ..batches import Batches, IndexedBatch
from ..curvature.capture import Captured, capture
from ..curvature.tangents import tangent_kernel
from ..linalg import Dense
from ..priors import Prior
from .passes import Model, draw_columns
from .terms import EvidenceTerms

__all__ = ["kernel_log_volume", "kernel_terms"]


def kernel_terms(model: Model, prior: Prior, batches: Batches, mode_correction: bool) -> EvidenceTerms:
    """The terms with the kernel of all data at once, N·C rows; exact, and equal to those of curvature "full"."""
    if mode_correction:
        raise StructureError(
            "mode_correction needs a curvature over weights, and curvature='kernel' is one over data. Use 'full' or 'kron'."
        )
    whole = _joined(batches)
    captured = capture(model.network, whole.x, model.weights, index=whole.identity, seed=model.seed)
    model.likelihood.check(captured.outputs, whole.y)
    return EvidenceTerms(
        log_likelihood=model.likelihood.log_prob(captured.outputs, whole.y),
        log_prior=prior.log_density(model.weights),
        log_volume=kernel_log_volume(model, prior, captured, whole),
        gradient_norm=None,
        mode_correction=None,
        num_data=len(whole.x),
        structures=dict.fromkeys(model.weights, "kernel"),
    )


def kernel_log_volume(model: Model, prior: Prior, captured: Captured, batch: IndexedBatch) -> Float[Tensor, ""]:
    r"""The log-volume :math:`\frac12(P\log 2\pi - \log|\delta| - \log|I + K|)` of one pass."""
    kernel = tangent_kernel(captured, draw_columns(model, captured, batch, "exact", 0), prior.shifts())
    return 0.5 * (_log_constant(model, prior) - Dense(kernel, name="tangent kernel").logdet(1.0))


def _log_constant(model: Model, prior: Prior) -> Float[Tensor, ""]:
    r""":math:`P \log 2\pi - \log|\delta|`."""
    shifts = prior.shifts()
    logs = [shifts[name].log().expand(weight.numel()).sum() for name, weight in model.weights.items()]
    return prior.num_params * math.log(2 * math.pi) - torch.stack(logs).sum()


def _joined(batches: Batches) -> IndexedBatch:
    parts = list(batches)
    return IndexedBatch(*(torch.cat([part[i] for part in parts]) for i in range(3)))
