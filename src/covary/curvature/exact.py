r"""Exact blocks of the GGN :math:`H = \sum_n \hat J_n^\top \Lambda_n \hat J_n`: all of it, its diagonal, one weight's.

With probes :math:`v_k` of Λ, H is the Gram matrix of the rows :math:`\hat J_n^\top v_k`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..linalg import AbstractPSD, Dense, Diagonal
from .capture import Captured, row_slices
from .rows import called

FULL = "all weights"  # the name of the one block of a full GGN


def full_blocks(captured: Captured, probes: Iterable[Float[Tensor, "N C"]]) -> dict[str, Dense]:
    """The one block of all weights, additive over batches by `accumulate`."""
    total: Dense | None = None
    for gradients in captured.pull_all(probes):
        block = dense_block(captured, tuple(captured.weights), gradients)
        total = block if total is None else total.accumulate(block)
    assert total is not None, "a likelihood has at least one probe"
    return {FULL: total}


def diagonal_blocks(captured: Captured, probes: Iterable[Float[Tensor, "N C"]]) -> dict[str, AbstractPSD]:
    """The diagonal blocks of the weights that were called, additive over batches by `accumulate`."""
    blocks: dict[str, AbstractPSD] = {}
    for gradients in captured.pull_all(probes):
        used = [name for name in captured.weights if captured.factors[name]]
        blocks = accumulate(blocks, {name: diagonal_block(captured, name, gradients) for name in used})
    return blocks


def exact_blocks(
    captured: Captured, gradients: Sequence[Tensor], without: Container[str] = ()
) -> dict[str, AbstractPSD]:
    """The blocks of small parameters for one probe, dense or diagonal."""
    dense = [name for name in called(captured, "dense") if name not in without]
    blocks: dict[str, AbstractPSD] = {name: dense_block(captured, (name,), gradients) for name in dense}
    return blocks | {name: diagonal_block(captured, name, gradients) for name in called(captured, "diagonal")}


def dense_block(captured: Captured, names: Sequence[str], gradients: Sequence[Tensor]) -> Dense:
    """The Gram matrix over data of one probe's Jacobian products for these weights together."""
    num_params = sum(captured.weights[name].numel() for name in names)
    matrix: Tensor | None = None
    for rows in row_slices(len(captured.outputs), num_params):
        columns = torch.cat([captured.vjp(name, gradients, rows) for name in names], 1)
        part = columns.T @ columns
        matrix = part if matrix is None else matrix + part
    assert matrix is not None, "a batch has at least one datum"
    return Dense(matrix, name=", ".join(names))


def diagonal_block(captured: Captured, name: str, gradients: Sequence[Tensor]) -> Diagonal:
    """The sum over data of one probe's squared Jacobian products for one weight."""
    values: Tensor | None = None
    for rows in row_slices(len(captured.outputs), captured.weights[name].numel()):
        part = captured.vjp(name, gradients, rows).square().sum(0)
        values = part if values is None else values + part
    assert values is not None, "a batch has at least one datum"
    return Diagonal(values, name=name)


def accumulate(total: Mapping[str, AbstractPSD], part: Mapping[str, AbstractPSD]) -> dict[str, AbstractPSD]:
    """The blocks of both; a weight that one of them never called keeps the other's block."""
    merged = dict(total)
    for name, block in part.items():
        merged[name] = merged[name].accumulate(block) if name in merged else block
    return merged
