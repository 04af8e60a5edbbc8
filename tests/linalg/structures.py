"""One example of every structure, built from plain tensors."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from covary.linalg import AbstractPSD, Block, Dense, Diagonal, Kron


class Case(NamedTuple):
    """A structure as a function of the tensors that define it, and initial tensors."""

    build: Callable[[Sequence[Tensor]], AbstractPSD]
    tensors: list[Tensor]

    def value(self) -> AbstractPSD:
        """The structured matrix of the tensors, without graph."""
        return self.build(self.tensors)

    def leaves(self) -> list[Tensor]:
        """Clones of the tensors with requires_grad."""
        return [tensor.clone().requires_grad_() for tensor in self.tensors]


def gram(seed: int, *shape: int, rank: int | None = None) -> Tensor:
    """A random symmetric positive semi-definite matrix (..., n, n), float64."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(*shape[:-1], rank or shape[-1] + 3, generator=generator, dtype=torch.float64)
    return rows @ rows.mT


def normal(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers, float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _mixed(tensors: Sequence[Tensor]) -> Block:
    return Block(
        {
            "dense": Dense(tensors[0]),
            "diagonal": Diagonal(tensors[1]),
            "kron": Kron(tensors[2], tensors[3], 2.5),
            "grouped": Kron(tensors[4], tensors[5], 4.0),
        }
    )


def _kron(tensors: Sequence[Tensor]) -> Kron:
    return Kron(tensors[0], tensors[1], 3.5)


def _traced(tensors: Sequence[Tensor]) -> Kron:
    return Kron(tensors[0], tensors[1], None)


CASES = {
    "dense": Case(lambda t: Dense(t[0]), [gram(0, 5, 5)]),
    "diagonal": Case(lambda t: Diagonal(t[0]), [normal(1, 6).square()]),
    "kron": Case(_kron, [gram(2, 3, 3), gram(3, 4, 4)]),
    "kron, rank one": Case(_kron, [gram(4, 4, 4, rank=1), gram(5, 3, 3, rank=2)]),
    "kron, A blocked": Case(_kron, [gram(6, 3, 2, 2), gram(7, 4, 4)]),
    "kron, B blocked": Case(_kron, [gram(8, 3, 3), gram(9, 2, 2, 2)]),
    "kron, both blocked": Case(_kron, [gram(10, 3, 2, 2), gram(11, 3, 3, 3)]),
    "kron, one block": Case(_kron, [gram(24, 1, 2, 2), gram(25, 3, 3)]),
    "kron, A diagonal": Case(_kron, [normal(12, 4, 1, 1).square(), gram(13, 3, 3)]),
    "kron, B diagonal": Case(_kron, [gram(14, 3, 3), normal(15, 4, 1, 1).square()]),
    "kron, traced": Case(_traced, [gram(26, 3, 3), gram(27, 4, 4)]),
    "kron, traced, A blocked": Case(_traced, [gram(28, 3, 2, 2), gram(29, 4, 4)]),
    "kron, traced, B blocked": Case(_traced, [gram(30, 3, 3), gram(31, 2, 2, 2)]),
    "kron, traced, both blocked": Case(_traced, [gram(32, 3, 2, 2), gram(33, 3, 3, 3)]),
    "block": Case(
        _mixed,
        [gram(16, 3, 3), normal(17, 4).square(), gram(18, 2, 2), gram(19, 3, 3), gram(20, 2, 2, 2), gram(21, 2, 2)],
    ),
}
