r"""Eigenvalues and log-determinants from Krylov spaces, by block Lanczos with full reorthogonalization.

From a block of K random rows :math:`G`, m steps give an orthonormal basis of the space of
:math:`G, AG, \dots, A^{m-1} G` and the projection T of A onto it, from m·K products. T has the ends of the spectrum
of A long before the basis is complete.

The log-determinant is a trace, by stochastic Lanczos quadrature:

.. math:: \log|I + A/\delta| = \operatorname{tr} f(A), \qquad f(\lambda) = \log(1 + \lambda/\delta).

As in Hutch++, it is the sum of a term inside a subspace and a term outside, the mean of :math:`g^\top f(A) g` over
random signs g projected out of it. The subspace is a whole Krylov space, so that the first term needs no further
products, and the probes start a Krylov space of their own. Both terms are bounded from both sides. On a Krylov space
with projection T, :math:`f(T)` is above f(A), as f is operator concave; T with one more block, chosen to put
eigenvalues at 0 (the Gauss–Radau rule), is below, as A is positive semi-definite.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError, NotPositiveDefiniteError
from ...noise import Stream, normal, rademacher
from .estimate import Estimate, error_of_mean
from .operators import MatrixFree

MAX_PASSES = 5  # of orthogonalization; two are typical


class Krylov(NamedTuple):
    r"""A Krylov space of dimension J = m·K, and A on it; all but the basis in float64 on the CPU.

    With the basis Q in rows, :math:`A Q^\top = Q^\top T + W^\top E^\top`, where E picks the last block.
    """

    basis: Float[Tensor, "J P"]  # Q, orthonormal rows
    projection: Float[Tensor, "J J"]  # T = Q A Qᵀ, symmetric and block tridiagonal
    start: Float[Tensor, "K K"]  # the triangular factor R₀ of the block, Gᵀ = Q₁ᵀ R₀
    remainder: Float[Tensor, "K K"]  # the triangular factor R of Wᵀ, which the last step adds to the space
    rounding: float  # the size of a rounding error in an entry of T


@torch.no_grad()
def krylov(matrix: MatrixFree, block: Float[Tensor, "K P"], num_steps: int) -> Krylov:
    """The Krylov space of a block after a number of steps.

    Arguments:
        block: The rows G that the space starts from.
        num_steps: The number m of steps, K products each; fewer if the space is full before.
    """
    num_rows = len(block)
    if not (1 <= num_rows <= matrix.size and num_steps >= 1):
        raise DataError(
            f"Expected a block of 1 to {matrix.size} rows (the size of the matrix) and at least one step, got "
            f"{num_rows} rows and {num_steps} steps. Change the number of eigenvalues, probes or steps."
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
    may be a lower one than the i-th. The error is therefore twice the residual plus the last step's change of the
    value. This is not a bound; on spectra of five shapes it held for all values at once for at least 95 of 100 seeds.
    A block of as many rows as an eigenvalue has multiples finds them all (a Gaussian likelihood gives a last layer
    every eigenvalue C times).

    Arguments:
        matrix: The symmetric matrix A, of any signature.
        num: The number of eigenvalues.
        num_steps: The number of steps, 2 or more.
        block_size: The rows of the block and the products of each step, `num` by default.
        seed: The seed of the block.

    Example:
        >>> values = torch.arange(20, dtype=torch.float64)
        >>> matrix = MatrixFree(lambda vectors: vectors * values, size=20)
        >>> top_eigenvalues(matrix, 2, num_steps=10).value.round(decimals=6)
        tensor([19., 18.], dtype=torch.float64)
    """
    num_rows = num if block_size is None else block_size
    index = torch.arange(num_rows, device=matrix.device)
    space = krylov(matrix, normal(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype), num_steps)
    before = len(space.basis) - num_rows
    if num > before and len(space.basis) < matrix.size:
        raise DataError(
            f"Expected at most {before} eigenvalues for {num_steps} steps from {num_rows} rows, got {num}. Allow more "
            "steps or a larger block."
        )
    values, vectors = torch.linalg.eigh(space.projection)
    errors = 2 * (space.remainder @ vectors[-num_rows:]).norm(dim=0)[-num:]
    if len(space.basis) < matrix.size:
        errors = errors + values[-num:] - torch.linalg.eigvalsh(space.projection[:before, :before])[-num:]
    return Estimate(values[-num:].flip(0), errors.flip(0) + len(values) * space.rounding, len(values))


def estimate_log_det(
    matrix: MatrixFree, damping: float | int = 1.0, *, num_probes: int = 3, num_steps: int = 20, seed: int = 0
) -> Estimate:
    r"""The log-determinant :math:`\log|I + A/\delta|`, with its 95 % error.

    The value is the middle of its bounds; the error is half their distance, plus that of a mean over probes. It takes
    2 · probes · steps products: more steps lower the first term of the error, which grows as δ falls, more probes the
    second. If the first Krylov space is the whole space, the log-determinant is exact.

    Arguments:
        matrix: The matrix A, positive semi-definite, such as `gauss_newton`.
        damping: :math:`\delta > 0`, such as a prior precision.
        num_probes: The number of probes, and of rows that start the first Krylov space.
        num_steps: The number of steps in both Krylov spaces.
        seed: The seed of the random signs.

    Example:
        >>> values = torch.arange(12, dtype=torch.float64)
        >>> estimate = estimate_log_det(MatrixFree(lambda vectors: vectors * values, size=12))
        >>> round(float(estimate.value), 4)  # log |I + A| = log 12!
        19.9872
    """
    if not damping > 0:
        raise DataError(f"Expected `damping` above 0, such as a prior precision, got {damping}.")
    index = torch.arange(2 * num_probes, device=matrix.device)
    signs = rademacher(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype)
    first, probes = signs.split(num_probes)
    space = krylov(matrix, first, num_steps)
    inside = _bracket(space, torch.eye(len(space.basis), dtype=torch.float64), damping)
    value, error = 0.5 * (inside.upper + inside.lower), 0.5 * (inside.upper - inside.lower).abs()
    if len(space.basis) == matrix.size:
        return Estimate(value, error, matrix.size)
    space_of_probes = krylov(matrix, probes - (probes @ space.basis.T) @ space.basis, num_steps)
    outside = _bracket(space_of_probes, space_of_probes.start, damping)
    value = value + 0.5 * (outside.upper + outside.lower) / num_probes
    error = error + 0.5 * (outside.upper - outside.lower).abs() / num_probes
    error = error + error_of_mean(outside.squared_norm / num_probes, num_probes)
    return Estimate(value, error, len(space.basis) + len(space_of_probes.basis))


class _Bracket(NamedTuple):
    """Bounds of Σ sᵀf(A)s over starting vectors s, and Σ ‖f(A)s‖²."""

    lower: Float[Tensor, ""]
    upper: Float[Tensor, ""]
    squared_norm: Float[Tensor, ""]


def _orthonormal(rows: Float[Tensor, "K P"], known: Float[Tensor, "J P"]) -> tuple[Tensor, Tensor]:
    """Orthonormal rows that these rows add to the known ones, and their triangular factor."""
    factor = torch.eye(len(rows), dtype=torch.float64)
    for number in range(MAX_PASSES):
        size = rows.norm()
        columns, triangular = torch.linalg.qr((rows - (rows @ known.T) @ known).T)
        rows, factor = columns.T, triangular.double().cpu() @ factor
        # rows that vanish to rounding may stay inside the known space however often they are orthogonalized
        vanished = triangular.norm(dim=1, keepdim=True) <= 10 * torch.finfo(rows.dtype).eps * size
        if bool(vanished.any()):
            index = len(known) + torch.arange(len(rows), device=rows.device)
            others = normal(number, index, rows.shape[1:], stream=Stream.PROBE, dtype=rows.dtype)
            rows = torch.where(vanished, others, rows)
        # if the rows add almost nothing, the result of a pass is mostly rounding: repeat until one changes little
        if number > 0 and float(triangular.diagonal().abs().min()) > 0.5:
            break
    return rows, factor


def _bracket(space: Krylov, start: Float[Tensor, "k s"], damping: float | int) -> _Bracket:
    """The bounds for starting vectors in the first k rows of the basis, one per column of `start`."""
    values, vectors = torch.linalg.eigh(space.projection)
    if float(values[0]) < -1000 * space.rounding:
        raise NotPositiveDefiniteError(
            f"Expected a positive semi-definite matrix, got one with an eigenvalue of {float(values[0]):.1e} or below. "
            "Use gauss_newton instead of loss_hessian."
        )
    upper, squared_norm = _sums(values, vectors, start, damping)
    # the lower bound divides by eigenvalues: those within rounding of zero count as that rounding, at their cost
    raised = values.clamp_min(max(space.rounding, torch.finfo(values.dtype).tiny))
    cost = _sums(raised, vectors, start, damping)[0] - upper
    lowered = torch.linalg.eigh(_with_zeros(space.remainder, raised, vectors))
    lower, _ = _sums(lowered.eigenvalues, lowered.eigenvectors, start, damping)
    return _Bracket(lower - cost, upper, squared_norm)


def _sums(
    values: Float[Tensor, " J"], vectors: Float[Tensor, "J J"], start: Float[Tensor, "k s"], damping: float | int
) -> tuple[Tensor, Tensor]:
    """Sums of sᵀf(T)s and of sᵀf(T)²s over starting vectors s, from the eigenvalues and -vectors of T."""
    masses = (start.T @ vectors[: len(start)]).square().sum(0)
    logs = (values.clamp_min(0) / damping).log1p()  # below zero by rounding alone
    return masses @ logs, masses @ logs.square()


def _with_zeros(
    remainder: Float[Tensor, "K K"], values: Float[Tensor, " J"], vectors: Float[Tensor, "J J"]
) -> Float[Tensor, "I I"]:
    r"""The matrix T with one more block :math:`R E^\top T^{-1} E R^\top`, the least for which none is below 0."""
    num_rows = len(remainder)
    half = (remainder @ vectors[-num_rows:]) / values.sqrt()
    coupling = torch.zeros(num_rows, len(values), dtype=values.dtype)
    coupling[:, -num_rows:] = remainder
    projection = (vectors * values) @ vectors.T
    return torch.cat([torch.cat([projection, coupling.T], 1), torch.cat([coupling, half @ half.T], 1)])
