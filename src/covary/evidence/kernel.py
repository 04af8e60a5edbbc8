r"""The evidence by the dual of the whole Gauss–Newton matrix, over data instead of weights: :math:`\log|I + K|`."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from ..batches import Batches, IndexedBatch
from ..curvature.capture import Captured
from ..curvature.kernel import tangent_kernel
from ..curvature.passes import captured_batch, root_probes
from ..distributed import all_sum_number
from ..errors import StructureError
from ..likelihoods import given
from ..linalg import Dense
from ..models import Model
from .terms import EvidenceTerms, log_volume, prior_log_det


def kernel_terms(model: Model, batches: Batches, seed: int, mode_correction: bool) -> EvidenceTerms:
    """The terms with the kernel of all data at once, N·C rows; exact, and equal to those of curvature "full"."""
    _check_kernel(mode_correction)
    whole, weights = joined_batch(batches), model.weights
    captured = captured_batch(model, weights, whole, seed)
    log_ratio = kernel_log_ratio(model, captured, root_probes(given(model.likelihood, whole.y), captured.outputs, None))
    return EvidenceTerms(
        log_likelihood=model.likelihood.log_prob(captured.outputs, whole.y),
        log_prior=model.prior.log_density(weights),
        log_volume=log_volume(prior_log_det(model) + log_ratio, model.prior.num_params),
        gradient_norm=None,
        mode_correction=None,
        num_data=len(whole.x),
        structures=dict.fromkeys(weights, "kernel"),
    )


def kernel_log_ratio(model: Model, captured: Captured, probes: Iterable[Float[Tensor, "N C"]]) -> Float[Tensor, ""]:
    r"""The log-ratio :math:`\log|I + K| = \log|H + \delta| - \log|\delta|` of one pass and these probes."""
    kernel = tangent_kernel(captured, probes, model.prior.shifts())
    # a vector selects the Cholesky factor: every eigenvalue of I + K is 1 or more, and nothing else is done with it
    return Dense(kernel, name="tangent kernel").logdet(torch.ones_like(kernel.diagonal()))


def joined_batch(batches: Batches) -> IndexedBatch:
    """All data as one batch."""
    parts = list(batches)
    return IndexedBatch(*(torch.cat([part[i] for part in parts]) for i in range(3)))


def _check_kernel(mode_correction: bool) -> None:
    if mode_correction:
        raise StructureError(
            "Expected a curvature over weights for mode_correction, got 'kernel', which is one over data. Use 'full' "
            "or 'kron'."
        )
    num_processes = all_sum_number(1)
    if num_processes > 1:
        raise StructureError(
            f"Expected one process, got {num_processes}: the kernel couples every datum with every other, so one "
            "process must hold all of them. Use curvature='full' or 'kron', or the bound of hypergrad.stochastic."
        )
