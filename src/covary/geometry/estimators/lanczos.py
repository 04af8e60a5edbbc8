r"""Eigenvalues from Krylov spaces, by block Lanczos with full reorthogonalization.

From a block of K random rows :math:`G`, m steps give an orthonormal basis of the space of
:math:`G, AG, \dots, A^{m-1} G` and the projection T of A onto it, from m·K products. T has the ends of the spectrum
of A long before the basis is complete.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError
from ...noise import Stream, normal
from .estimate import Estimate
from .operators import MatrixFree

MOST_PASSES = 5  # of orthogonalization; two are the rule


class Krylov(NamedTuple):
    r"""A Krylov space of dimension J = m·K, and A on it; all but the basis in float64 on the CPU.

    With the basis Q in rows, :math:`A Q^\top = Q^\top T + W^\top E^\top`, where E picks the last block.

    Arguments:
        basis: Q, orthonormal rows.
        projection: :math:`T = Q A Q^\top`, symmetric and block tridiagonal.
        start: The triangular factor :math:`R_0` of the block, :math:`G^\top = Q_1^\top R_0`.
        remainder: The triangular factor R of :math:`W^\top`, what the last step adds to the space.
        rounding: The size of a rounding error in an entry of T.
    """

    basis: Float[Tensor, "J P"]
    projection: Float[Tensor, "J J"]
    start: Float[Tensor, "K K"]
    remainder: Float[Tensor, "K K"]
    rounding: float


@torch.no_grad()
def krylov(matrix: MatrixFree, block: Float[Tensor, "K P"], num_steps: int) -> Krylov:
    """The Krylov space of a block after that many steps.

    Arguments:
        matrix: The symmetric matrix A.
        block: The rows G that the space starts from.
        num_steps: The number m of steps, K products each; fewer where the space is full before.
    """
    num_rows = len(block)
    if not (1 <= num_rows <= matrix.size and num_steps >= 1):
        raise DataError(
            f"A Krylov space of a matrix of size {matrix.size} needs a block of 1 to {matrix.size} rows and at least "
            f"one step; {num_rows} rows and {num_steps} steps came. Ask for that many eigenvalues, probes and steps."
        )
    num_steps = min(num_steps, matrix.size // num_rows)
    basis = torch.empty(num_steps * num_rows, matrix.size, dtype=matrix.dtype, device=matrix.device)
    projection = torch.zeros(len(basis), len(basis), dtype=torch.float64)
    rows, start = _orthonormal(block, basis[:0])
    remainder = start
    for step in range(num_steps):
        here = slice(step * num_rows, (step + 1) * num_rows)
        basis[here] = rows
        known = basis[: here.stop]
        images = matrix(rows)
        products = (images @ known.T).double().cpu()
        projection[here, : here.stop], projection[: here.stop, here] = products, products.T
        rows, remainder = _orthonormal(images, known)
    projection = 0.5 * (projection + projection.T)
    rounding = torch.finfo(matrix.dtype).eps * float(projection.abs().max())
    return Krylov(basis, projection, start, remainder, rounding)


def top_eigenvalues(
    matrix: MatrixFree, num: int = 5, *, num_steps: int = 8, block_size: int | None = None, seed: int = 0
) -> Estimate:
    r"""The largest eigenvalues of A, descending, each with its error.

    The i-th value of the projection rises to the i-th eigenvalue, step by step. Within the residual
    :math:`\|A y - \vartheta y\|` of its vector y there is an eigenvalue for certain, but before convergence that
    may be a lower one than the i-th. The error is therefore twice the residual plus what the last step raised the
    value by: no theorem, but chosen on spectra of five shapes, where it held all values at once for 95 of 100 seeds
    or more. A block of as many rows as an eigenvalue has multiples finds them all (a Gaussian likelihood gives a last
    layer every eigenvalue C times).

    Arguments:
        matrix: The symmetric matrix A, of any signature.
        num: How many eigenvalues.
        num_steps: The number of steps, 2 or more.
        block_size: The rows of the block, `num` by default; each step takes so many products.
        seed: The seed of the block.
    """
    num_rows = num if block_size is None else block_size
    index = torch.arange(num_rows, device=matrix.device)
    space = krylov(matrix, normal(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype), num_steps)
    before = len(space.basis) - num_rows
    if num > before and len(space.basis) < matrix.size:
        raise DataError(
            f"{num} eigenvalues were asked for, but {num_steps} steps from {num_rows} rows know {before} with their "
            "errors. Allow more steps or a larger block."
        )
    values, vectors = torch.linalg.eigh(space.projection)
    errors = 2 * (space.remainder @ vectors[-num_rows:]).norm(dim=0)[-num:]
    if len(space.basis) < matrix.size:
        errors = errors + values[-num:] - torch.linalg.eigvalsh(space.projection[:before, :before])[-num:]
    return Estimate(values[-num:].flip(0), errors.flip(0) + len(values) * space.rounding, len(values))


def _orthonormal(rows: Float[Tensor, "K P"], known: Float[Tensor, "J P"]) -> tuple[Tensor, Tensor]:
    """Orthonormal rows for what these rows add to the known ones, and their triangular factor."""
    factor = torch.eye(len(rows), dtype=torch.float64)
    for number in range(MOST_PASSES):
        columns, triangular = torch.linalg.qr((rows - (rows @ known.T) @ known).T)
        rows, factor = columns.T, triangular.double().cpu() @ factor
        # where the rows add almost nothing, what a pass leaves is mostly rounding: repeat until one changes little
        if number > 0 and float(triangular.diagonal().abs().min()) > 0.5:
            break
    return rows, factor
