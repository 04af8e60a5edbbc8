r"""The Laplace evidence of the training data: how probable the data are under the model, weights integrated out."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._types import Columns
from ..batches import Data, as_batches
from ..curvature.registry import CurvatureName, blocks_function, check_choice, joined_shifts
from ..likelihoods import Likelihood
from ..linalg import Block
from ..priors import Prior
from .kernel import kernel_terms
from .passes import Factors, Model, check_model, factor_pass
from .terms import EvidenceTerms, log_volume


@torch.no_grad()
def log_evidence(
    network: nn.Module,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    curvature: CurvatureName = "kron",
    columns: Columns = "exact",
    seed: int = 0,
    *,
    mode_correction: bool = False,
    batch_size: int | None = None,
) -> EvidenceTerms:
    r"""The Laplace evidence :math:`\log Z` in its three terms, at the network's present weights.

    .. math:: \log Z = \log p(D|\theta) + \log p(\theta|\delta) + \tfrac P2 \log 2\pi - \tfrac12 \log|H + \delta|

    Higher is better; every term is a sum over data. Deterministic for a seed, whatever the batch size and order. Under
    an initialized `torch.distributed` process group each process passes its shard, and gets the evidence of all.

    Arguments:
        network: The network, averaged or plain, in evaluation mode where it has modes.
        likelihood: The likelihood.
        prior: The prior, made for this network; the weights it leaves out are not integrated over.
        data: A pair of tensors, a `Dataset`, or an iterable of batches.
        curvature: "kron" (KFAC), "kron-traced" (KFAC with partial traces), "full", "diag", or "kernel" (the
            full curvature by its dual, for few data).
        columns: "exact", or a number of sketches: cheaper, with a log-determinant that comes out too small.
        seed: The seed of the augmentation's noise and of the sketches.
        mode_correction: Whether to add :math:`\frac12 g^\top(H+\delta)^{-1}g`, the gain of moving to the mode of the
            linearized model; exact for a linear-Gaussian model at any weights.
        batch_size: How many data go through at once, where the data can be cut.
    """
    check_choice(curvature, columns, prior)
    model = Model(network, likelihood, prior.weights(network), seed)
    batches = as_batches(data, batch_size)
    check_model(model, batches)
    if curvature == "kernel":
        return kernel_terms(model, prior, batches, mode_correction)
    factors = factor_pass(model, batches, blocks_function(curvature), columns, with_gradient=True)
    return evidence_terms(factors, prior, model.weights, mode_correction=mode_correction)


def evidence_terms(
    factors: Factors, prior: Prior, weights: Mapping[str, nn.Parameter], *, mode_correction: bool = False
) -> EvidenceTerms:
    """The terms for the statistics of a pass, differentiable in the prior and in the factors.

    Arguments:
        factors: The statistics.
        prior: The prior; it may have changed since the pass, the eigenvalues stay.
        weights: The weights that it covers.
        mode_correction: Whether the correction is part of the sum; needs the factors' gradient.
    """
    shifts = joined_shifts(factors.curvature, prior, weights)
    constants = {name: weight.detach() for name, weight in weights.items()}
    gradient = None if factors.gradient is None else joint_gradient(factors.gradient, prior, constants)
    correction = None
    if mode_correction:
        assert gradient is not None, "the correction needs the pass's gradient"
        correction = 0.5 * gradient @ factors.curvature.solve(gradient, shifts)
    return EvidenceTerms(
        log_likelihood=factors.log_likelihood,
        log_prior=prior.log_density(constants),
        log_volume=log_volume(factors.curvature, shifts),
        gradient_norm=None if gradient is None else gradient.norm(),
        mode_correction=correction,
        num_data=factors.num_data,
        structures=_structures(factors.curvature, weights),
    )


def joint_gradient(gradient: Mapping[str, Tensor], prior: Prior, weights: Mapping[str, Tensor]) -> Float[Tensor, " P"]:
    r"""The gradient :math:`g = \nabla_\theta \log p(D, \theta)`, flat, in the order of the weights."""
    shifts = prior.shifts()
    return torch.cat([gradient[name].flatten() - shifts[name] * weight.flatten() for name, weight in weights.items()])


def _structures(curvature: Block, weights: Mapping[str, nn.Parameter]) -> dict[str, str]:
    names = {"Kron": "kron", "Dense": "dense", "Diagonal": "diagonal"}
    if len(curvature.blocks) == 1 and next(iter(curvature.blocks)) not in weights:
        return dict.fromkeys(weights, "full")
    return {name: names[type(block).__name__] for name, block in curvature.blocks.items()}
