r"""Traces over random signs, of a matrix that is known by its products: of itself, and of its logarithm.

The trace, by Hutch++ (Meyer, Musco, Musco and Woodruff 2021):

.. math:: \operatorname{tr} A = \operatorname{tr} Q^\top A Q + \operatorname{tr} B,
    \qquad B = (I - QQ^\top) A (I - QQ^\top).

Q spans the range of A on random signs, so the first term is exact and holds the large eigenvalues; the second
is the mean of :math:`g^\top B g` over random signs g.

The log-determinant of a matrix that is near the identity, by Lanczos quadrature:

.. math:: \log|A| = \operatorname{tr} \log A = E[g^\top \log(A)\, g].

On the Krylov space of all probes after k steps, with the projection T of A, :math:`\log T` is above the logarithm of A
and falls to it geometrically with k: the limit is extrapolated from the last three steps.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError, NotPositiveDefiniteError
from ...noise import Stream, rademacher
from .estimate import Estimate, error_of_mean
from .krylov import Krylov, krylov
from .operators import MatrixFree


@torch.no_grad()
def estimate_trace(matrix: MatrixFree, *, num_products: int = 60, seed: int = 0) -> Estimate:
    r"""The trace of A, with its 95 % error.

    A third of the products finds Q, a third is the trace inside it, a third are probes g; :math:`\|B g\|^2`
    estimates the variance without further products. If Q spans the whole space, the trace is exact.

    Arguments:
        matrix: The symmetric matrix A, of any signature.
        num_products: The number of products, at least 3; fewer are used where they suffice.
        seed: The seed of the random signs.

    Example:
        >>> values = torch.arange(5, dtype=torch.float64)
        >>> estimate_trace(MatrixFree(lambda vectors: vectors * values, size=5)).value.round(decimals=6)
        tensor(10., dtype=torch.float64)
    """
    if num_products < 3:
        raise DataError(f"Expected at least 3 products, got {num_products}. Pass for example `num_products=60`.")
    num_rows = min(num_products // 3, matrix.size)
    num_probes = num_products - 2 * num_rows if num_rows < matrix.size else 0
    index = torch.arange(num_rows + num_probes, device=matrix.device)
    signs = rademacher(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype)
    block, probes = signs.split([num_rows, num_probes])
    basis = torch.linalg.qr(matrix(block).T)[0].T
    inside = (basis * matrix(basis)).sum(dtype=torch.float64).cpu()
    if not num_probes:
        return Estimate(inside, torch.zeros_like(inside), 2 * num_rows)
    probes = probes - (probes @ basis.T) @ basis
    products = matrix(probes)
    outside = (probes * products).sum(dtype=torch.float64).cpu() / num_probes
    products = products - (products @ basis.T) @ basis
    squared_norm = products.square().sum(dtype=torch.float64).cpu() / num_probes
    return Estimate(inside + outside, error_of_mean(squared_norm, num_probes), 2 * num_rows + num_probes)


MIN_STEPS = 3
MAX_RATIO = 0.9  # of two changes; above it the limit cannot be extrapolated from them


def estimate_log_det_preconditioned(
    matrix: MatrixFree, *, num_probes: int = 16, num_steps: int = 10, seed: int = 0
) -> Estimate:
    r"""The log-determinant :math:`\log|A|` of a matrix with eigenvalues mostly near 1, with its 95 % error.

    Meant for :math:`A = P^{-1/2} H P^{-1/2}` with P near H: eigenvalues of 1 add nothing to value or error. The error
    is the extrapolated change, plus that of a mean over probes. It takes probes · steps products; exact to rounding if
    the Krylov space is the whole space.

    Arguments:
        matrix: The matrix A, positive definite.
        num_probes: The number of probes.
        num_steps: The number of steps, 3 or more.
        seed: The seed of the random signs.

    Example:
        >>> values = torch.arange(1, 13, dtype=torch.float64)
        >>> matrix = MatrixFree(lambda vectors: vectors * values, size=12)
        >>> estimate = estimate_log_det_preconditioned(matrix, num_probes=4)
        >>> round(float(estimate.value), 4)  # log 12!
        19.9872
    """
    if num_steps < MIN_STEPS:
        raise DataError(f"Expected at least {MIN_STEPS} steps, from which the limit is extrapolated, got {num_steps}.")
    index = torch.arange(max(min(num_probes, matrix.size // MIN_STEPS), 1), device=matrix.device)
    signs = rademacher(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype)
    space = krylov(matrix, signs, num_steps)
    if len(space.basis) == matrix.size:
        return Estimate(_logs(space.projection)[0].sum(), torch.zeros((), dtype=torch.float64), matrix.size)
    return _mean_over_probes(space, len(signs))


def _mean_over_probes(space: Krylov, num_probes: int) -> Estimate:
    """The extrapolated mean of gᵀ log(A) g over the probes that the space started from, with its error."""
    sizes = [len(space.basis) - back * num_probes for back in (2, 1, 0)]
    (first, _), (second, _), (last, squares) = (_sums(space, size) for size in sizes)
    change, before = second - last, first - second
    # quotients of rounding errors say nothing: where nothing changes any more, nothing remains
    ratio = (change / before).clamp(0.0, MAX_RATIO) if change.abs() > abs(float(last)) * 1e-12 else 0.0 * change
    remaining = change.clamp_min(0.0) * ratio / (1 - ratio)
    error = remaining / num_probes + error_of_mean(squares / num_probes, num_probes)
    return Estimate((last - remaining) / num_probes, error, len(space.basis))


def _sums(space: Krylov, size: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums of gᵀ log(T) g and of ‖log(T) g‖² over the probes, on the first rows of the basis."""
    logs, vectors = _logs(space.projection[:size, :size])
    masses = (space.start.T @ vectors[: len(space.start)]).square().sum(0)
    return masses @ logs, masses @ logs.square()


def _logs(projection: Float[Tensor, "J J"]) -> tuple[Float[Tensor, " J"], Float[Tensor, "J J"]]:
    """Logarithms of the eigenvalues, and the eigenvectors."""
    values, vectors = torch.linalg.eigh(projection)
    if not float(values[0]) > 0:
        raise NotPositiveDefiniteError(
            f"Expected a positive definite matrix, got one with an eigenvalue of {float(values[0]):.1e} or below. "
            "Compute in float64, or raise the prior's precision."
        )
    return values.log(), vectors
