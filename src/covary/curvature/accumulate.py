"""Blocks of several batches: the value that one pass over all of them would have given."""

from collections.abc import Mapping

from torch import nn

from ..linalg import AbstractPSD, Block, Diagonal


def accumulate(total: Mapping[str, AbstractPSD], part: Mapping[str, AbstractPSD]) -> dict[str, AbstractPSD]:
    """The blocks of both; a weight that one of them never called keeps the other's block."""
    merged = dict(total)
    for name, block in part.items():
        merged[name] = merged[name].accumulate(block) if name in merged else block
    return merged


def as_block(blocks: Mapping[str, AbstractPSD], weights: Mapping[str, nn.Parameter]) -> Block:
    """The block-diagonal matrix of all weights; one that was never called has curvature zero."""
    zero = {
        name: Diagonal(weight.detach().new_zeros(weight.numel()))
        for name, weight in weights.items()
        if name not in blocks
    }
    return Block({name: blocks[name] if name in blocks else zero[name] for name in weights})
