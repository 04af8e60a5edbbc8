r"""The diagonal of the GGN: :math:`\sum_{n,k} (\hat J_n^\top v_k)^2`, entry by entry."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._types import Batch, Columns
from ..likelihoods import Likelihood
from ..linalg import Block, Diagonal
from .accumulate import as_block
from .capture import Captured
from .coverage import select_weights
from .evaluate import evaluate, summed_blocks
from .jacobian import row_slices, weight_vjp


def diag(
    network: nn.Module,
    likelihood: Likelihood,
    batch: Batch,
    *,
    columns: Columns = "exact",
    generator: torch.Generator | None = None,
    weights: Iterable[str] | None = None,
    index: Int[Tensor, " N"] | None = None,
    seed: int = 0,
) -> Block:
    """The diagonal of the GGN of a batch, one block per weight, sum over data, without the prior.

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
    blocks = summed_blocks(parts, diagonal_blocks, likelihood, columns, generator)
    return as_block(blocks, select_weights(network, weights))


def diagonal_blocks(captured: Captured, columns: Iterable[Float[Tensor, "N C"]]) -> dict[str, Diagonal]:
    """The blocks of the weights that were called, additive over batches by `accumulate`."""
    blocks: dict[str, Diagonal] = {}
    for gradients in captured.pull_all(columns):
        for name in captured.weights:
            if captured.factors[name]:
                block = diagonal_block(captured, name, gradients)
                blocks[name] = block if name not in blocks else blocks[name].accumulate(block)
    return blocks


def diagonal_block(captured: Captured, name: str, gradients: Sequence[Tensor]) -> Diagonal:
    """The sum over data of one column's squared Jacobian products for one weight."""
    values: Tensor | None = None
    for rows in row_slices(len(captured.outputs), captured.weights[name].numel()):
        part = weight_vjp(captured, name, gradients, rows).square().sum(0)
        values = part if values is None else values + part
    assert values is not None, "a batch has at least one datum"
    return Diagonal(values, name=name)
