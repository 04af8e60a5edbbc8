"""The gradient of the evidence with everything in one graph: the definition, for small problems and tests."""

import torch
from torch import nn

from ..batches import Data, as_batches
from ..curvature.passes import check_model, curvature_pass
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_blocks
from ..evidence.terms import evidence_terms
from ..models import Model, as_model
from .hyperparameters import (
    HyperGradient,
    detached,
    gradients,
    model_hyperparameters,
    prior_hyperparameters,
    summed,
)


@torch.enable_grad()
def direct(
    model: nn.Module | Model, data: Data, curvature: Curvature | CurvatureName = "kron", *, seed: int = 0
) -> HyperGradient:
    r"""The gradient of :math:`\log Z` with respect to every hyperparameter, by differentiating all of it at once.

    Memory grows with the number of data; `two_pass` gives the same with the memory of one batch. The weights are held
    fixed.

    Arguments:
        model: The model, or a network; call `eval()` first if it has `BatchNorm` or `Dropout`.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure; any but "kernel".
        seed: The seed of the augmentation's noise and of random probes.

    Example:
        >>> import torch
        >>> from covary import hypergrad
        >>> gradient = hypergrad.direct(torch.nn.Linear(4, 3), (torch.randn(8, 4), torch.arange(8) % 3))
        >>> list(gradient)
        ['prior.log_precision']
    """
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    check_blocks(curvature, model.prior)
    check_model(model, batches)
    terms = evidence_terms(model, curvature_pass(model, batches, curvature, seed=seed))
    inner, outer = model_hyperparameters(model), prior_hyperparameters(model.prior)
    found = gradients(terms.log_evidence, inner | outer)
    return HyperGradient(summed({n: found[n] for n in inner}) | {n: found[n] for n in outer}, detached(terms))
