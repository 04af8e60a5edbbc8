r"""The log-determinant of a matrix known by its products, by stochastic Lanczos quadrature.

.. math:: \log|I + A/\delta| = \operatorname{tr} f(A), \qquad f(\lambda) = \log(1 + \lambda/\delta).

As in Hutch++, the trace has a part inside a subspace and a part outside, the mean of :math:`g^\top f(A) g` over
random signs g projected out of it. The subspace is a whole Krylov space, so that the first part needs no products
beyond those that found it, and the probes start a Krylov space of their own.

Both parts are bounded from both sides. On a Krylov space with projection T, :math:`f(T)` is above f(A), as f is
operator concave; T with one more block, chosen to put eigenvalues at 0 (the Gauss–Radau rule), is below, as A is
positive semi-definite.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError, NotPositiveDefiniteError
from ...noise import Stream, rademacher
from .estimate import Estimate, error_of_mean
from .lanczos import Krylov, krylov
from .operators import MatrixFree


class _Bracket(NamedTuple):
    """Bounds of Σ sᵀf(A)s over starting vectors s, and Σ ‖f(A)s‖²."""

    lower: Float[Tensor, ""]
    upper: Float[Tensor, ""]
    squared_norm: Float[Tensor, ""]


def estimate_log_det(
    matrix: MatrixFree, damping: float | int = 1.0, *, num_probes: int = 3, num_steps: int = 20, seed: int = 0
) -> Estimate:
    r"""The log-determinant :math:`\log|I + A/\delta|`, with its 95 % error.

    The value is the middle of its bounds; the error is half their distance, plus that of a mean over probes. It takes
    2 · probes · steps products: more probes lower the second part, more steps the first, which grows as δ falls.
    Where the first Krylov space is the whole space, the log-determinant is exact.

    Arguments:
        matrix: The matrix A, positive semi-definite, such as `gauss_newton`.
        damping: :math:`\delta > 0`, such as a prior precision.
        num_probes: The number of probes, and of rows that start the first Krylov space.
        num_steps: The number of steps in both Krylov spaces.
        seed: The seed of the random signs.
    """
    if not damping > 0:
        raise DataError(f"damping must be above 0; {damping} came. Pass a positive number, as a prior precision is.")
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


def _bracket(space: Krylov, start: Float[Tensor, "k s"], damping: float | int) -> _Bracket:
    """The bounds for starting vectors in the first k rows of the basis, one per column of `start`."""
    values, vectors = torch.linalg.eigh(space.projection)
    if float(values[0]) < -1000 * space.rounding:
        raise NotPositiveDefiniteError(
            f"The log-determinant needs a positive semi-definite matrix; this one has an eigenvalue of "
            f"{float(values[0]):.1e} or below. Use gauss_newton instead of loss_hessian."
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
    r"""The matrix T with one more block :math:`R E^\top T^{-1} E R^\top`, the least that leaves none below 0."""
    num_rows = len(remainder)
    half = (remainder @ vectors[-num_rows:]) / values.sqrt()
    coupling = torch.zeros(num_rows, len(values), dtype=values.dtype)
    coupling[:, -num_rows:] = remainder
    projection = (vectors * values) @ vectors.T
    return torch.cat([torch.cat([projection, coupling.T], 1), torch.cat([coupling, half @ half.T], 1)])
