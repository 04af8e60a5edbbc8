r"""The full GGN :math:`H = \sum_n \hat J_n^\top \Lambda_n \hat J_n`: the Gram matrix of its columns."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._types import Batch, Columns
from ..likelihoods import Likelihood
from ..linalg import Dense
from .capture import Captured
from .evaluate import evaluate, summed_blocks
from .jacobian import row_slices, weight_vjp

FULL = "all weights"  # the name of the one block of a full GGN


def full(
    network: nn.Module,
    likelihood: Likelihood,
    batch: Batch,
    *,
    columns: Columns = "exact",
    generator: torch.Generator | None = None,
    weights: Iterable[str] | None = None,
    index: Int[Tensor, " N"] | None = None,
    seed: int = 0,
) -> Dense:
    """The full GGN of a batch over all weights in their order, sum over data, without the prior.

    Arguments:
        network: The network, averaged or plain.
        likelihood: The likelihood.
        batch: Inputs and targets.
        columns: "exact" for all C columns of the root of Λ, or a number of random sketches.
        generator: Where the sketches' signs come from.
        weights: Names of the weights to cover; all by default.
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        seed: The seed of that noise.
    """
    parts = evaluate(network, likelihood, batch, weights, index, seed)
    total = summed_blocks(parts, full_blocks, likelihood, columns, generator)[FULL]
    assert isinstance(total, Dense), "a full GGN is one dense block"
    return total


def full_blocks(captured: Captured, columns: Iterable[Float[Tensor, "N C"]]) -> dict[str, Dense]:
    """The one block of all weights, additive over batches by `accumulate`."""
    total: Dense | None = None
    for gradients in captured.pull_all(columns):
        block = dense_block(captured, tuple(captured.weights), gradients)
        total = block if total is None else total.accumulate(block)
    assert total is not None, "a likelihood has at least one column"
    return {FULL: total}


def dense_block(captured: Captured, names: Sequence[str], gradients: Sequence[Tensor]) -> Dense:
    """The Gram matrix over data of one column's Jacobian products for these weights together."""
    num_params = sum(captured.weights[name].numel() for name in names)
    matrix: Tensor | None = None
    for rows in row_slices(len(captured.outputs), num_params):
        columns = torch.cat([weight_vjp(captured, name, gradients, rows) for name in names], 1)
        part = columns.T @ columns
        matrix = part if matrix is None else matrix + part
    assert matrix is not None, "a batch has at least one datum"
    return Dense(matrix, name=", ".join(names))
