"""Block-diagonal matrices with named blocks."""

from collections.abc import Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import ShapeError, StructureError
from .checks import check_vectors, describe
from .dense import Dense
from .diagonal import Diagonal
from .eigen import Run, decompose, in_parallel
from .kron import Kron
from .psd import AbstractPSD, Shift, Shifts, check_matching, is_vector

Single = Dense | Diagonal | Kron


@final
class Block(AbstractPSD):
    r"""The matrix :math:`H = \mathrm{blockdiag}(H_1, H_2, \ldots)` with a name per block.

    Vectors are those of the blocks, concatenated in order. All blocks are decomposed in parallel when first needed.

    Arguments:
        blocks: Name -> block, in order; blocks are not nested.
        name: The name of the whole matrix in messages; each block has its own.

    Example:
        >>> import torch
        >>> from covary.linalg import Block, Dense, Diagonal
        >>> block = Block({"weight": Dense(torch.eye(2)), "bias": Diagonal(torch.tensor([1.0, 3.0]))})
        >>> round(float(block.logdet({"weight": 1.0, "bias": 0.0})), 3)
        2.485
    """

    def __init__(self, blocks: Mapping[str, AbstractPSD], *, name: str = "") -> None:
        self.blocks: dict[str, Single] = {key: _single(key, block).named(key) for key, block in blocks.items()}
        self.name = name
        if not blocks:
            raise ShapeError("Expected at least one block, got none. Pass a mapping from names to matrices.")
        kinds = {(block.dtype, block.device) for block in blocks.values()}
        if len(kinds) > 1:
            raise StructureError(
                f"Expected blocks of one dtype and device, got {sorted(map(str, kinds))}. Convert them with `map`."
            )

    def __getitem__(self, name: str) -> Single:
        """The block with this name."""
        return self.blocks[name]

    @property
    def size(self) -> int:
        """The number of rows P, summed over blocks."""
        return sum(self._sizes)

    @property
    def tensors(self) -> dict[str, tuple[Tensor, ...]]:
        """Name -> the tensors of the block."""
        return {name: block.tensors for name, block in self.blocks.items()}

    def matvec(self, vectors: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        """Products :math:`H v`, block by block."""
        pieces = self._split(vectors)
        return torch.cat([block.matvec(pieces[name]) for name, block in self.blocks.items()], dim=-1)

    def to_dense(self) -> Float[Tensor, "P P"]:
        """All entries of :math:`H`."""
        return torch.block_diag(*(block.to_dense() for block in self.blocks.values()))

    def diagonal(self) -> Float[Tensor, " P"]:
        """The diagonal of :math:`H`."""
        return torch.cat([block.diagonal() for block in self.blocks.values()])

    def trace(self) -> Float[Tensor, ""]:
        """The trace, summed over blocks."""
        return torch.stack([block.trace() for block in self.blocks.values()]).sum()

    def logdet(self, shift: Shifts = 0.0) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\sum_k \log|H_k + \delta_k|`."""
        shifts = self._prepared(shift, vectors=False)
        return torch.stack([block.logdet(shifts[name]) for name, block in self.blocks.items()]).sum()

    def solve(self, vectors: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Solutions :math:`(H + \delta)^{-1} v`, block by block."""
        pieces, shifts = self._split(vectors), self._prepared(shift)
        return torch.cat([block.solve(pieces[name], shifts[name]) for name, block in self.blocks.items()], dim=-1)

    def sample(self, noise: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Samples of :math:`N(0, (H + \delta)^{-1})`, block by block; without graph."""
        pieces, shifts = self._split(noise), self._prepared(shift)
        return torch.cat([block.sample(pieces[name], shifts[name]) for name, block in self.blocks.items()], dim=-1)

    def effective_dimension(self, shift: Shifts) -> Float[Tensor, ""]:
        r"""The effective number of dimensions, summed over blocks."""
        shifts = self._prepared(shift, vectors=False)
        return torch.stack([block.effective_dimension(shifts[name]) for name, block in self.blocks.items()]).sum()

    def half_logdet_cotangents(self, shift: Shifts) -> dict[str, tuple[Tensor, ...]]:
        """Name -> the derivatives of the block, without graph."""
        shifts = self._prepared(shift)
        return {name: block.half_logdet_cotangents(shifts[name]) for name, block in self.blocks.items()}

    def map(self, function: TensorMap) -> "Block":
        """The same structure with the function applied to every additive statistic of every block."""
        return Block({name: block.map(function) for name, block in self.blocks.items()}, name=self.name)

    def accumulate(self, other: AbstractPSD) -> "Block":
        """The blocks of the data of both; the names must be the same."""
        check_matching(self, other, lambda _: None)
        assert isinstance(other, Block)
        self._check_names(other.blocks, "another Block")
        joined = {name: block.accumulate(other[name]) for name, block in self.blocks.items()}
        return Block(joined, name=self.name)

    def __add__(self, other: object) -> "Block":
        """The sum with a matrix of the same blocks."""
        if not isinstance(other, Block):
            return NotImplemented
        self._check_names(other.blocks, "another Block")
        return Block({name: block + other[name] for name, block in self.blocks.items()}, name=self.name)

    def __mul__(self, scale: float | int | Float[Tensor, ""]) -> "Block":
        """The matrix times a number that is at least 0."""
        return Block({name: block * scale for name, block in self.blocks.items()}, name=self.name)

    @property
    def _sizes(self) -> list[int]:
        """The number of rows of each block."""
        return [block.size for block in self.blocks.values()]

    def _split(self, vectors: Float[Tensor, "*batch P"]) -> dict[str, Tensor]:
        """Name -> the slice of the vectors that belongs to the block."""
        check_vectors(vectors, self.size, describe(self.name))
        return dict(zip(self.blocks, vectors.split(self._sizes, dim=-1), strict=True))

    def decompose(self, shift: Shifts, *, vectors: bool = True, run: Run = in_parallel) -> None:
        """Decompose all blocks: with eigenvectors for a log-determinant that is followed by its cotangents.

        Arguments:
            shift: The shift, or one per block.
            vectors: Whether eigenvectors are needed.
            run: How single decompositions are run.
        """
        self._prepared(shift, vectors=vectors, run=run)

    def _prepared(self, shift: Shifts, *, vectors: bool = True, run: Run = in_parallel) -> dict[str, Shift]:
        """Name -> shift, after decomposing the blocks that need it, with eigenvectors or without."""
        shifts = self._shifts(shift)
        # a shift per row is solved by Cholesky and needs no eigenvectors
        wanted = {name: block.factors for name, block in self.blocks.items() if not is_vector(shifts[name])}
        decompose(wanted, vectors=vectors, run=run)
        return shifts

    def _shifts(self, shift: Shifts) -> dict[str, Shift]:
        """Name -> shift, one for every block."""
        if isinstance(shift, Mapping):
            self._check_names(shift, "the mapping of shifts")
            return {name: shift[name] for name in self.blocks}
        if isinstance(shift, Tensor) and shift.ndim > 0:
            raise StructureError(
                f"Expected one number or a mapping from block names to shifts, got a tensor {tuple(shift.shape)}. "
                f"Split it into a mapping with the names {list(self.blocks)}."
            )
        return dict.fromkeys(self.blocks, shift)

    def _check_names(self, other: Mapping[str, object], origin: str) -> None:
        """Raise `StructureError` if the names of a mapping are not those of the blocks."""
        missing = [name for name in self.blocks if name not in other]
        unknown = [name for name in other if name not in self.blocks]
        if missing or unknown:
            raise StructureError(
                f"Expected one entry for each of the blocks {list(self.blocks)}, but {origin} lacks {missing} and adds "
                f"{unknown}. Pass exactly one entry per block."
            )


def _single(name: str, block: AbstractPSD) -> Single:
    """The block, after a check that it is not a `Block` itself."""
    if isinstance(block, Dense | Diagonal | Kron):
        return block
    raise StructureError(
        f"Expected block '{name}' to be Dense, Diagonal or Kron, got {type(block).__name__}. "
        "Put the inner blocks into one mapping."
    )
