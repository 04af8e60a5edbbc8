"""One pass over all data: the curvature's additive statistics, the log-likelihood, the gradient of the weights."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._types import Columns
from ..batches import Batches, IndexedBatch
from ..curvature.accumulate import accumulate
from ..curvature.capture import Captured, capture
from ..curvature.coverage import require_coverage
from ..curvature.evaluate import check_jacobian_factors, chunk_slices
from ..curvature.probes import root_columns
from ..curvature.registry import BlocksFunction, joined
from ..distributed import all_sum, all_sum_number
from ..likelihoods import Likelihood
from ..linalg import AbstractPSD, Block
from ..noise import Stream, rademacher


class Model(NamedTuple):
    """A network with the weights that its prior covers, its likelihood, and the seed of its noise."""

    network: nn.Module
    likelihood: Likelihood
    weights: Mapping[str, nn.Parameter]
    seed: int


class Factors(NamedTuple):
    r"""What a pass over all data leaves, all of it sums over data and processes.

    Arguments:
        curvature: H, one block per weight or one for all.
        log_likelihood: :math:`\log p(D | \theta)`.
        gradient: :math:`\nabla_\theta \log p(D | \theta)` by weight, or None where it was not asked for.
        num_data: The number of data.
    """

    curvature: Block
    log_likelihood: Float[Tensor, ""]
    gradient: Mapping[str, Tensor] | None
    num_data: int


def check_model(model: Model, batches: Batches) -> None:
    """Nothing, or the first mistake that would make the evidence wrong, found on the first batch."""
    require_coverage(model.network, model.weights)
    check_jacobian_factors(model.network, next(iter(batches)).x, model.weights)


@torch.no_grad()
def factor_pass(
    model: Model,
    batches: Batches,
    blocks_of: BlocksFunction,
    columns: Columns,
    *,
    stream: int = Stream.SKETCH,
    with_gradient: bool = False,
) -> Factors:
    """The statistics of all data, without graph.

    Arguments:
        model: The model.
        batches: The data.
        blocks_of: The structure of the curvature.
        columns: "exact", or a number of sketches.
        stream: Which stream the sketches' signs come from.
        with_gradient: Whether the weights' gradient is wanted too; it costs about a training pass.
    """
    blocks: dict[str, AbstractPSD] = {}
    gradient = {name: torch.zeros_like(weight) for name, weight in model.weights.items()}
    log_likelihoods, num_data = [], 0
    for captured, batch in captured_chunks(model, batches):
        if with_gradient:
            _add_gradient(gradient, model, captured, batch)
        log_likelihoods.append(model.likelihood.log_prob(captured.outputs, batch.y).double())
        vectors = draw_columns(model, captured, batch, columns, stream)
        blocks = accumulate(blocks, blocks_of(captured, vectors))
        num_data += len(batch.x)
    return Factors(
        joined(blocks, model.weights).map(all_sum),
        all_sum(torch.stack(log_likelihoods).sum()),
        {name: all_sum(value) for name, value in gradient.items()} if with_gradient else None,
        all_sum_number(num_data),
    )


def captured_chunks(model: Model, batches: Batches) -> Iterator[tuple[Captured, IndexedBatch]]:
    """Captured passes over the data, in parts with a bounded number of rows: a sum over data is a sum over parts."""
    for batch in batches:
        for rows in chunk_slices(model.network, len(batch.x)):
            part = IndexedBatch(*(tensor[rows] for tensor in batch))
            captured = capture(model.network, part.x, model.weights, index=part.identity, seed=model.seed)
            model.likelihood.check(captured.outputs, part.y)
            yield captured, part


def draw_columns(
    model: Model, captured: Captured, batch: IndexedBatch, columns: Columns, stream: int
) -> Iterator[Float[Tensor, "N C"]]:
    """The columns of a part; the signs of sketches are a function of (seed, stream, identity)."""
    signs = None
    if columns != "exact":
        shape = (columns, captured.outputs.shape[1])
        drawn = rademacher(model.seed, batch.identity, shape, stream=stream, dtype=captured.outputs.dtype)
        signs = drawn.transpose(0, 1)
    return root_columns(model.likelihood, captured.outputs, signs)


def _add_gradient(total: dict[str, Tensor], model: Model, captured: Captured, batch: IndexedBatch) -> None:
    with torch.enable_grad():
        log_likelihood = model.likelihood.log_prob(captured.outputs, batch.y)
    weights = list(model.weights.values())
    gradients = torch.autograd.grad(log_likelihood, weights, retain_graph=True, allow_unused=True)
    for name, gradient in zip(model.weights, gradients, strict=True):
        if gradient is not None:
            total[name] += gradient
