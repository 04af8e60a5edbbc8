r"""The Laplace evidence of the training data: how probable the data are under the model, weights integrated out."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Batches, Data, IndexedBatch, as_batches
from ..curvature.capture import Captured
from ..curvature.kernel import tangent_kernel
from ..curvature.passes import captured_batch, check_model, curvature_pass, root_probes
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_curvature
from ..distributed import all_sum_number
from ..errors import StructureError
from ..likelihoods import given
from ..linalg import Dense
from ..models import Model, as_model
from .terms import EvidenceTerms, evidence_terms, log_volume, prior_log_det


@torch.no_grad()
def log_evidence(
    model: nn.Module | Model,
    data: Data,
    curvature: Curvature | CurvatureName = "kron",
    *,
    seed: int = 0,
    mode_correction: bool = False,
) -> EvidenceTerms:
    r"""The Laplace evidence :math:`\log Z` in its three terms, at the network's present weights.

    .. math:: \log Z = \log p(D|\theta) + \log p(\theta|\delta) + \tfrac P2 \log 2\pi - \tfrac12 \log|H + \delta|

    Higher is better; every term is a sum over data. Deterministic for a seed, whatever the batch size and order. Under
    an initialized `torch.distributed` process group each process passes its shard, and gets the evidence of all.

    Arguments:
        model: The model, or a network; in evaluation mode where it has modes. Weights that its prior excludes are not
            integrated over.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure.
        seed: The seed of the augmentation's noise and of random probes.
        mode_correction: Whether to add :math:`\frac12 g^\top(H+\delta)^{-1}g`, the gain of moving to the mode of the
            linearized model; exact for a linear-Gaussian model at any weights.

    Example:
        >>> import torch, covary
        >>> network = torch.nn.Linear(4, 1)
        >>> model = covary.Model(network, covary.Gaussian(0.5), covary.Prior(network, "scalar"))
        >>> terms = covary.log_evidence(model, (torch.zeros(8, 4), torch.zeros(8, 1)), "full")
        >>> bool(terms.log_evidence == terms.log_likelihood + terms.log_prior + terms.log_volume)
        True
    """
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    check_curvature(curvature, model.prior)
    check_model(model, batches)
    if curvature.structure == "kernel":
        return kernel_terms(model, batches, seed, mode_correction)
    statistics = curvature_pass(model, batches, curvature, seed=seed, with_gradient=True)
    return evidence_terms(model, statistics, mode_correction=mode_correction)


def conditional_log_evidence(
    model: nn.Module | Model,
    data: Data,
    given_model: nn.Module | Model,
    given_data: Data,
    curvature: Curvature | CurvatureName = "kron",
    *,
    seed: int = 0,
) -> Float[Tensor, ""]:
    r"""The log-evidence :math:`\log Z(D | D_1) = \log Z(D) - \log Z(D_1)` of all data given a first part of them.

    Each evidence is computed at its own weights: train on the part, then on all data. It measures how well the model
    predicts the rest once it has seen the part, and predicts generalization better when models are compared.

    Arguments:
        model: The model trained on all data.
        data: All data D, which include the part.
        given_model: The model trained on the part.
        given_data: The part :math:`D_1`.
        curvature: The choice of curvature, or the name of its structure.
        seed: The seed of the augmentation's noise and of random probes.

    Example:
        >>> import torch, covary
        >>> network, x, y = torch.nn.Linear(4, 3), torch.randn(8, 4), torch.arange(8) % 3
        >>> float(covary.conditional_log_evidence(network, (x, y), network, (x, y)))
        0.0
    """
    whole = log_evidence(model, data, curvature, seed=seed)
    return whole.log_evidence - log_evidence(given_model, given_data, curvature, seed=seed).log_evidence


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
