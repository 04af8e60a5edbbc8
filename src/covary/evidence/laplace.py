r"""The Laplace evidence of the training data: how probable the data are under the model, weights integrated out."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Data, as_batches
from ..curvature.decompositions import decompose
from ..curvature.passes import check_model, curvature_pass
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_curvature, joined_shifts
from ..models import Model, as_model
from .correction import Correction, CorrectionMethod, as_correction, check_correctable, corrected
from .kernel import kernel_terms
from .terms import EvidenceTerms, evidence_terms


@torch.no_grad()
def log_evidence(
    model: nn.Module | Model,
    data: Data,
    curvature: Curvature | CurvatureName = "kron",
    *,
    seed: int = 0,
    mode_correction: bool = False,
    correction: Correction | CorrectionMethod | None = None,
) -> EvidenceTerms:
    r"""The Laplace evidence :math:`\log Z` in its three terms, at the network's present weights.

    .. math:: \log Z = \log p(D|\theta) + \log p(\theta|\delta) + \tfrac P2 \log 2\pi - \tfrac12 \log|H + \delta|

    Higher is better; every term is a sum over data. For a given seed the result is deterministic and does not depend on
    batch size or order. With an initialized `torch.distributed` process group, each process passes its shard and gets
    the evidence of all data.

    Arguments:
        model: The model, or a network; call `eval()` first if it has `BatchNorm` or `Dropout`. Weights that its prior
            excludes are not integrated over.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure.
        seed: The seed of the augmentation's noise and of random probes.
        mode_correction: Whether to add :math:`\frac12 g^\top(H+\delta)^{-1}g`, the gain of moving to the mode of the
            linearized model; exact for a linear-Gaussian model at any weights.
        correction: How to correct the log-volume for what the structure neglects, such as the curvature between
            layers: "exact", "lanczos", "auto" (exact where memory allows it, else Lanczos), or a `Correction`. The
            terms then have their `correction` in nats and a `standard_error`.

    Example:
        >>> import torch, covary
        >>> network = torch.nn.Linear(4, 1)
        >>> model = covary.Model(network, covary.Gaussian(0.5), covary.Prior(network, "scalar"))
        >>> terms = covary.log_evidence(model, (torch.zeros(8, 4), torch.zeros(8, 1)), "full")
        >>> bool(terms.log_evidence == terms.log_likelihood + terms.log_prior + terms.log_volume)
        True
        >>> data = torch.randn(8, 4), torch.arange(8) % 3
        >>> whole = covary.log_evidence(torch.nn.Linear(4, 3), data, correction="exact")
        >>> bool(whole.correction != 0), float(whole.standard_error)
        (True, 0.0)
    """
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    check_curvature(curvature, model.prior)
    wanted = None if correction is None else as_correction(correction)
    if wanted is not None:
        check_correctable(curvature, mode_correction)
    check_model(model, batches)
    if curvature.structure == "kernel":
        return kernel_terms(model, batches, seed, mode_correction)
    statistics = curvature_pass(model, batches, curvature, seed=seed, with_gradient=True)
    decompose(statistics.curvature, joined_shifts(statistics.curvature, model))
    terms = evidence_terms(model, statistics, mode_correction=mode_correction)
    return terms if wanted is None else corrected(terms, model, batches, statistics.curvature, wanted, seed)


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
