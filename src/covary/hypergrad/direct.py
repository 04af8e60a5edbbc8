"""The gradient of the evidence with everything in one graph: the definition, for small problems and tests."""

import torch
from torch import Tensor, nn

from .._types import Columns
from ..batches import Data, as_batches
from ..curvature.accumulate import accumulate
from ..curvature.registry import CurvatureName, blocks_function, check_choice, joined
from ..distributed import all_sum, all_sum_number
from ..evidence import Factors, Model, evidence_terms
from ..evidence.passes import captured_chunks, check_model, draw_columns
from ..likelihoods import Likelihood
from ..linalg import AbstractPSD
from ..noise import Stream
from ..priors import Prior
from .hyperparameters import (
    HyperGradient,
    detached,
    model_hyperparameters,
    prior_hyperparameters,
    refuse_kernel,
    slopes,
    summed,
)


@torch.enable_grad()
def direct(
    network: nn.Module,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    curvature: CurvatureName = "kron",
    columns: Columns = "exact",
    seed: int = 0,
    *,
    batch_size: int | None = None,
) -> HyperGradient:
    r"""The gradient of :math:`\log Z` with respect to every hyperparameter, by differentiating all of it at once.

    Memory grows with the number of data; `two_pass` gives the same with the memory of one batch. The weights are held
    fixed. Arguments as for `log_evidence`.
    """
    check_choice(curvature, columns, prior)
    refuse_kernel(curvature, "direct")
    model = Model(network, likelihood, prior.weights(network), seed)
    batches = as_batches(data, batch_size)
    check_model(model, batches)
    blocks: dict[str, AbstractPSD] = {}
    log_likelihoods, num_data = [], 0
    for captured, batch in captured_chunks(model, batches):
        log_likelihoods.append(likelihood.log_prob(captured.outputs, batch.y).double())
        vectors = draw_columns(model, captured, batch, columns, Stream.SKETCH)
        blocks = accumulate(blocks, blocks_function(curvature)(captured, vectors))
        num_data += len(batch.x)
    factors = Factors(
        joined(blocks, model.weights).map(_total),
        _total(torch.stack(log_likelihoods).sum()),
        None,
        all_sum_number(num_data),
    )
    terms = evidence_terms(factors, prior, model.weights)
    inner, outer = model_hyperparameters(model), prior_hyperparameters(prior)
    found = slopes(terms.log_evidence, inner | outer)
    return HyperGradient(summed({n: found[n] for n in inner}) | {n: found[n] for n in outer}, detached(terms))


def _total(value: Tensor) -> Tensor:
    """The sum over processes in value, this process's part in derivative."""
    return value + (all_sum(value.detach()) - value.detach())
