r"""The gradient of the evidence in two passes: the memory of one batch, the value of the whole.

Pass 1, without graph, over all N data: the curvature's statistics T (factors, blocks) and, in closed form, their
cotangents :math:`C = \partial\, \tfrac12\log|H+\delta| / \partial T`. Pass 2, with graph, part by part on M ≤ N data:

.. math:: \nabla_\eta \log Z = \frac NM \sum_\text{parts} \nabla_\eta
    \big( \log p(D_\text{part}|\theta,\eta) - \langle C, T_\text{part} \rangle \big).

With M = N, the same noise and the same columns this is the gradient of everything at once (paper 1, Eq. (20)).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .._types import Columns
from ..batches import Batches, Data, as_batches
from ..curvature.registry import CurvatureName, blocks_function, check_choice, joined_shifts
from ..distributed import all_sum_number
from ..evidence import Factors, Model, evidence_terms, factor_pass
from ..evidence.passes import captured_chunks, check_model, draw_columns
from ..likelihoods import Likelihood
from ..linalg import AbstractPSD, Block
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

Cotangents = Mapping[str, tuple[Tensor, ...]]


def two_pass(
    network: nn.Module,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    curvature: CurvatureName = "kron",
    columns: Columns = 1,
    seed: int = 0,
    *,
    num_data: int | None = None,
    share_sketches: bool = False,
    batch_size: int | None = None,
) -> HyperGradient:
    r"""The gradient of :math:`\log Z` with respect to every hyperparameter, by name; `.terms` holds the evidence.

    The weights are held fixed. Under an initialized `torch.distributed` process group each process passes its shard and
    gets the gradient of all.

    Arguments:
        network: The network, averaged or plain, in evaluation mode where it has modes.
        likelihood: The likelihood.
        prior: The prior, made for this network.
        data: A pair of tensors, a `Dataset`, or an iterable of batches.
        curvature: "kron", "kron-traced", "full" or "diag".
        columns: The number of sketches of the root of Λ, or "exact"; the terms' log-volume is that of the sketches.
        seed: The seed of the augmentation's noise, of the sketches, and of the choice of the M data.
        num_data: M, how many data (of each process) the second pass reads; all by default.
        share_sketches: Whether both passes use the same sketches: equal to `direct`, and more biased than independent
            ones.
        batch_size: How many data go through at once, where the data can be cut.
    """
    check_choice(curvature, columns, prior)
    refuse_kernel(curvature, "two_pass")
    model = Model(network, likelihood, prior.weights(network), seed)
    batches = as_batches(data, batch_size)
    check_model(model, batches)
    factors = factor_pass(model, batches, blocks_function(curvature), columns)
    # cotangents before the log-determinant: they need eigenvectors, it is content with the eigenvalues they leave
    cotangents = factor_cotangents(factors, prior, model.weights) if model_hyperparameters(model) else {}
    gradient = prior_gradient(factors, prior, model.weights)
    second = batches if num_data is None else batches.subset(num_data, seed)
    stream = Stream.SKETCH if share_sketches else Stream.SKETCH_SECOND
    gradient.update(model_gradient(cotangents, factors.num_data, model, second, (curvature, columns), stream=stream))
    return gradient


@torch.enable_grad()
def prior_gradient(factors: Factors, prior: Prior, weights: Mapping[str, nn.Parameter]) -> HyperGradient:
    """The gradient with respect to the prior alone, at the statistics of a pass: no pass of its own.

    Several steps on the prior may follow one pass; the eigenvalues are decomposed once.
    """
    terms = evidence_terms(factors, prior, weights)
    return HyperGradient(slopes(terms.log_evidence, prior_hyperparameters(prior)), detached(terms))


def factor_cotangents(factors: Factors, prior: Prior, weights: Mapping[str, nn.Parameter]) -> Cotangents:
    r"""The cotangents :math:`\partial\, \tfrac12\log|H+\delta| / \partial T` of a first pass, in closed form."""
    return factors.curvature.half_logdet_cotangents(joined_shifts(factors.curvature, prior, weights))


@torch.enable_grad()
def model_gradient(
    cotangents: Cotangents,
    num_data: int,
    model: Model,
    batches: Batches,
    choice: tuple[CurvatureName, Columns],
    *,
    stream: int = Stream.SKETCH_SECOND,
) -> dict[str, Tensor]:
    """The second pass alone: the gradient with respect to the hyperparameters of network and likelihood.

    Several may follow one first pass, on different data or noise, as long as the factors are near those of the model.

    Arguments:
        cotangents: What the first pass came to, by `factor_cotangents`.
        num_data: N, the number of all data.
        model: The model; its seed is that of this pass.
        batches: The M data that this pass reads (of each process); the result is scaled by N/M.
        choice: The structure that the first pass had, and the number of sketches, or "exact".
        stream: Which stream the sketches' signs come from.
    """
    parameters = model_hyperparameters(model)
    if not parameters:
        return {}
    curvature, columns = choice
    blocks_of = blocks_function(curvature)
    total, num_read = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}, 0
    for captured, batch in captured_chunks(model, batches):
        vectors = draw_columns(model, captured, batch, columns, stream)
        part = blocks_of(captured, vectors)
        objective = model.likelihood.log_prob(captured.outputs, batch.y) - _inner_product(cotangents, part)
        for name, slope in slopes(objective, parameters).items():
            total[name] += slope
        num_read += len(batch.x)
    scale = num_data / all_sum_number(num_read)
    return {name: scale * slope for name, slope in summed(total).items()}


def _inner_product(cotangents: Cotangents, blocks: Mapping[str, AbstractPSD]) -> Tensor:
    r"""The sum :math:`\langle C, T \rangle` over all statistics of the blocks."""
    products = [
        (cotangent * statistic).sum()
        for name, statistics in Block(blocks).tensors.items()
        for cotangent, statistic in zip(cotangents[name], statistics, strict=True)
    ]
    return torch.stack(products).sum()
