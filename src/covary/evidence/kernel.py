r"""The evidence by the tangent kernel: the full curvature of few data and many weights."""

import math
from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Batches, IndexedBatch
from ..curvature.capture import Captured, capture
from ..curvature.kernel import tangent_kernel
from ..distributed import all_sum_number
from ..errors import StructureError
from ..linalg import Dense
from ..priors import Prior
from .passes import Model, draw_columns
from .terms import EvidenceTerms


def kernel_terms(model: Model, prior: Prior, batches: Batches, mode_correction: bool) -> EvidenceTerms:
    """The terms with the kernel of all data at once, N·C rows; exact, and equal to those of curvature "full"."""
    _check(mode_correction)
    whole = joined_batch(batches)
    captured = capture(model.network, whole.x, model.weights, index=whole.identity, seed=model.seed)
    model.likelihood.check(captured.outputs, whole.y)
    columns = draw_columns(model, captured, whole, "exact", 0)
    return EvidenceTerms(
        log_likelihood=model.likelihood.log_prob(captured.outputs, whole.y),
        log_prior=prior.log_density(model.weights),
        log_volume=prior_log_volume(prior, model.weights) - 0.5 * kernel_log_ratio(captured, columns, prior),
        gradient_norm=None,
        mode_correction=None,
        num_data=len(whole.x),
        structures=dict.fromkeys(model.weights, "kernel"),
    )


def kernel_log_ratio(captured: Captured, columns: Iterable[Float[Tensor, "N C"]], prior: Prior) -> Float[Tensor, ""]:
    r"""The log-ratio :math:`\log|I + K| = \log|H + \delta| - \log|\delta|` of one pass and these columns."""
    kernel = tangent_kernel(captured, columns, prior.shifts())
    # a vector asks for the Cholesky factor: every eigenvalue of I + K is 1 or more, and nothing else is done with it
    return Dense(kernel, name="tangent kernel").logdet(torch.ones_like(kernel.diagonal()))


def prior_log_volume(prior: Prior, weights: Mapping[str, nn.Parameter]) -> Float[Tensor, ""]:
    r"""The log-volume :math:`\frac12(P\log 2\pi - \log|\delta|)` of the prior."""
    shifts = prior.shifts()
    # in double: the constant of a million weights would round away nats that models are compared by
    logs = [shifts[name].log().double().expand(weight.numel()).sum() for name, weight in weights.items()]
    return 0.5 * (prior.num_params * math.log(2 * math.pi) - torch.stack(logs).sum())


def joined_batch(batches: Batches) -> IndexedBatch:
    """All data as one batch."""
    parts = list(batches)
    return IndexedBatch(*(torch.cat([part[i] for part in parts]) for i in range(3)))


def _check(mode_correction: bool) -> None:
    if mode_correction:
        raise StructureError(
            "mode_correction needs a curvature over weights, and curvature='kernel' is one over data. Use 'full' or "
            "'kron'."
        )
    num_processes = all_sum_number(1)
    if num_processes > 1:
        raise StructureError(
            "curvature='kernel' couples every datum with every other, so one process must hold all of them; there "
            f"are {num_processes}. Use curvature='full' or 'kron', or the bound of hypergrad.stochastic."
        )
