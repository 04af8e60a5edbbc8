"""Sums of outer products: computed by half, and kept with their rows while these are few."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap

HALF_SIZE, STRIP = 512, 128  # columns from which strips pay, and those of a strip (measured)


@final
@dataclass(frozen=True)
class Gram:
    r"""The matrix :math:`M = \sum_i r_i r_i^\top`, and its rows :math:`r_i` while they are fewer than its columns.

    The matrix then has the eigenvalues of the small matrix :math:`r_i \cdot r_j`, and zeros: 256 rows of 1024 columns
    are decomposed about twenty times faster (measured).
    """

    matrix: Float[Tensor, "..."]  # the sum, (n, n), or a stack of them, (Q, n, n)
    # the rows of each matrix of the stack, (Q, k, n) with k < n, without graph; None if they are unknown or too many
    rows: Float[Tensor, "Qs k n"] | None = None

    def __add__(self, other: "Gram") -> "Gram":
        """The sum over the rows of both."""
        rows = None
        if self.rows is not None and other.rows is not None:
            number = self.rows.shape[1] + other.rows.shape[1]
            rows = torch.cat([self.rows, other.rows], 1) if number < self.rows.shape[2] else None
        return Gram(self.matrix + other.matrix, rows)

    def map(self, function: TensorMap) -> "Gram":
        """The sum with the function applied to its matrix; the rows are kept if the matrix is unchanged."""
        matrix = function(self.matrix)
        return Gram(matrix, self.rows if matrix is self.matrix else None)

    def compact(self) -> Float[Tensor, "*Qs m m"]:
        """A matrix with the same nonzero eigenvalues, without graph: that of the rows in float64, or the whole one."""
        if self.rows is None:
            return self.matrix.detach()
        rows = self.rows.double()
        return rows @ rows.mT


def as_gram(matrix: Float[Tensor, "..."] | Gram) -> Gram:
    """The matrix as a `Gram`, with unknown rows if it is a tensor."""
    return matrix if isinstance(matrix, Gram) else Gram(matrix)


def row_products(rows: Float[Tensor, "k n"]) -> Float[Tensor, "n n"]:
    r"""The matrix :math:`\sum_i r_i r_i^\top`, without graph.

    A large one is computed in strips that end at the diagonal, and what is above mirrors them: little more than half.
    """
    size = rows.shape[1]
    if size < HALF_SIZE:
        return rows.T @ rows
    found = rows.new_empty(size, size)
    for start in range(0, size, STRIP):
        stop = min(start + STRIP, size)
        torch.mm(rows[:, start:stop].T, rows[:, :stop], out=found[start:stop, :stop])
        found[:start, start:stop] = found[start:stop, :start].T
    return found
