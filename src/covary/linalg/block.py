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
from .eigen import decompose
from .kron import Kron
from .psd import AbstractPSD, check_matching
from .shift import Shift, Shifts, is_vector

Single = Dense | Diagonal | Kron


@final
class Block(AbstractPSD):
    r"""The matrix :math:`H = \mathrm{blockdiag}(H_1, H_2, \ldots)` with a name per block.

    Vectors are those of the blocks, concatenated in order. All blocks are decomposed side by side when first needed.

    Arguments:
        blocks: Name -> block, in order; a block is no `Block` itself.
        name: How messages call the whole; the blocks go by their own names.
    """

    def __init__(self, blocks: Mapping[str, AbstractPSD], *, name: str = "") -> None:
        self.blocks: dict[str, Single] = {key: _single(key, block).named(key) for key, block in blocks.items()}
        self.name = name
        if not blocks:
            raise ShapeError("A Block needs at least one block; none came. Pass a mapping from names to matrices.")
        kinds = {(block.dtype, block.device) for block in blocks.values()}
        if len(kinds) > 1:
            raise StructureError(
                f"Blocks must share one dtype and device; {sorted(map(str, kinds))} came. Move them with map."
            )

    def __getitem__(self, name: str) -> Single:
        """The block of that name."""
        return self.blocks[name]

    @property
    def size(self) -> int:
        """The number of rows P, summed over blocks."""
        return sum(self._sizes)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the entries."""
        return next(iter(self.blocks.values())).dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return next(iter(self.blocks.values())).device

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
        entries: Tensor = torch.block_diag(*(block.to_dense() for block in self.blocks.values()))
        return entries

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
        """The blocks of all the data; the names must be the same."""
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
        """Name -> the part of the vectors that belongs to the block."""
        check_vectors(vectors, self.size, describe(self.name))
        return dict(zip(self.blocks, vectors.split(self._sizes, dim=-1), strict=True))

    def decompose(self, shift: Shifts) -> None:
        """The decomposition in full, for a value whose log-determinant is asked before its cotangents."""
        self._prepared(shift)

    def _prepared(self, shift: Shifts, *, vectors: bool = True) -> dict[str, Shift]:
        """Name -> shift, after the decomposition of every block that will need it, with eigenvectors or without."""
        shifts = self._shifts(shift)
        # A shift per row goes through Cholesky, so a decomposition would be thrown away.
        wanted = {name: block.factors for name, block in self.blocks.items() if not is_vector(shifts[name])}
        decompose(wanted, vectors=vectors)
        return shifts

    def _shifts(self, shift: Shifts) -> dict[str, Shift]:
        """Name -> shift, one for every block."""
        if isinstance(shift, Mapping):
            self._check_names(shift, "the mapping of shifts")
            return {name: shift[name] for name in self.blocks}
        if isinstance(shift, Tensor) and shift.ndim > 0:
            raise StructureError(
                f"A Block takes one number or a mapping from its names to shifts; a tensor {tuple(shift.shape)} came. "
                f"Split it into a mapping with the names {list(self.blocks)}."
            )
        return dict.fromkeys(self.blocks, shift)

    def _check_names(self, other: Mapping[str, object], origin: str) -> None:
        """Refusal of a mapping whose names are not those of the blocks."""
        missing = [name for name in self.blocks if name not in other]
        unknown = [name for name in other if name not in self.blocks]
        if missing or unknown:
            raise StructureError(
                f"The blocks are {list(self.blocks)}, but {origin} lacks {missing} and adds {unknown}. "
                "Give exactly one entry per block."
            )


def _single(name: str, block: AbstractPSD) -> Single:
    """The block, after a check that it is not made of blocks itself."""
    if isinstance(block, Dense | Diagonal | Kron):
        return block
    raise StructureError(
        f"Block '{name}' must be Dense, Diagonal or Kron; {type(block).__name__} came. "
        "Put the inner blocks into one mapping."
    )
