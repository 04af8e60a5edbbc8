"""Which curvature did the user ask for, and does it go with the prior and the columns?"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from .._types import Columns
from ..errors import StructureError
from ..linalg import AbstractPSD, Block
from ..priors import Prior
from .accumulate import as_block
from .capture import Captured
from .diag import diagonal_blocks
from .full import FULL, full_blocks
from .kron import kron_blocks
from .kron_traced import traced_blocks
from .probes import check_columns

CurvatureName = Literal["kron", "kron-traced", "full", "diag", "kernel"]
BlocksFunction = Callable[[Captured, Iterable[Tensor]], Mapping[str, AbstractPSD]]
_BLOCKS: dict[str, BlocksFunction] = {
    "kron": kron_blocks,
    "kron-traced": traced_blocks,
    "full": full_blocks,
    "diag": diagonal_blocks,
}
KRON = ("kron", "kron-traced")


def check_choice(curvature: object, columns: Columns, prior: Prior) -> None:
    """Nothing, or the reason why these choices exclude each other."""
    check_columns(columns)
    if curvature not in (*_BLOCKS, "kernel"):
        raise StructureError(f"curvature must be 'kron', 'kron-traced', 'full', 'diag' or 'kernel', got {curvature!r}.")
    if curvature in KRON and prior.structure == "diagonal":
        raise StructureError(
            f"A diagonal prior with curvature '{curvature}' has no closed-form log-determinant. Use "
            f"Prior(structure='layerwise') or 'scalar' with '{curvature}', or curvature='diag' or 'full' with the "
            "diagonal prior."
        )
    if curvature in ("full", "kernel") and columns != "exact":
        raise StructureError(
            f"curvature={curvature!r} takes exact columns only: {columns} sketches would bias its log-determinant. Use "
            "columns='exact', or curvature='kron', 'kron-traced' or 'diag' with sketches."
        )


def blocks_function(curvature: str) -> BlocksFunction:
    """The function from a captured pass and its columns to blocks."""
    return _BLOCKS[curvature]


def joined(blocks: Mapping[str, AbstractPSD], weights: Mapping[str, nn.Parameter]) -> Block:
    """The curvature of all weights as one block-diagonal matrix."""
    return Block(blocks) if FULL in blocks else as_block(blocks, weights)


def joined_shifts(curvature: Block, prior: Prior, weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The prior's precisions, one shift per block."""
    shifts = prior.shifts()
    if FULL not in curvature.blocks:
        return shifts
    return {FULL: torch.cat([shifts[name].expand(weight.numel()) for name, weight in weights.items()])}
