"""Eigen-decompositions of symmetric positive semi-definite matrices, each made once and with one thread."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from .._errors import NotPositiveDefiniteError
from .checks import check_entries, describe

__all__ = ["Factors", "Spectrum", "decompose", "eigh_all", "tracked_values"]

# Below this size a decomposition takes less than 30 ms, and handing it to a worker costs what it gains (measured).
SIDE_BY_SIDE_SIZE = 400


class Spectrum(NamedTuple):
    """Eigenvalues, ascending, shape (..., n), with eigenvectors in columns, shape (..., n, n); without graph."""

    values: Tensor
    vectors: Tensor


@final
class Factors:
    """The matrices that a value decomposes, with their spectra once these are known.

    Arguments:
        matrices: What the part is called in messages -> matrix, shape (n, n) or (Q, n, n).
    """

    def __init__(self, matrices: Mapping[str, Tensor]) -> None:
        self.matrices = dict(matrices)
        self._spectra: tuple[Spectrum, ...] | None = None if self.matrices else ()

    @property
    def pending(self) -> bool:
        """Whether the decomposition is still to be made."""
        return self._spectra is None

    def spectra(self, name: str) -> tuple[Spectrum, ...]:
        """One spectrum per matrix, made on the first call.

        Arguments:
            name: The name of the block, for messages.
        """
        if self._spectra is None:
            decompose({name: self})
        assert self._spectra is not None
        return self._spectra

    def keep(self, spectra: Sequence[Spectrum]) -> None:
        """Storage of the spectra that `decompose` has made, in the order of the matrices."""
        self._spectra = tuple(spectra)


def decompose(blocks: Mapping[str, Factors]) -> None:
    """Decomposition of every matrix that still lacks one, all side by side; the blocks keep the results."""
    pending = {name: factors for name, factors in blocks.items() if factors.pending}
    labels = [describe(name, part) for name, factors in pending.items() for part in factors.matrices]
    spectra = iter(eigh_all([m for factors in pending.values() for m in factors.matrices.values()], labels))
    for factors in pending.values():
        factors.keep([next(spectra) for _ in factors.matrices])


def eigh_all(matrices: Sequence[Tensor], labels: Sequence[str] = ()) -> list[Spectrum]:
    r"""Spectra :math:`M = V \mathrm{diag}(\lambda) V^\top` of positive semi-definite matrices, without graph.

    Eigenvalues in :math:`[-t |\lambda|_{\max}, 0)` with t = 10 · size · eps count as zero: Gram matrices are positive
    semi-definite by construction, and this is the accuracy of `eigh`. A lower one raises
    `NotPositiveDefiniteError`. The number of threads of the caller is the same afterwards.

    Arguments:
        matrices: Symmetric matrices, each (n, n) or a stack (Q, n, n).
        labels: How messages call each matrix; "the matrix" without.
    """
    detached = [matrix.detach() for matrix in matrices]
    labels = labels or [describe("")] * len(detached)
    for matrix, label in zip(detached, labels, strict=True):
        check_entries(matrix, label)
    pieces = [_pieces(matrix) for matrix in detached]
    jobs = [(piece, label) for group, label in zip(pieces, labels, strict=True) for piece in group]
    spectra = iter(_side_by_side(jobs))
    joined = [_joined([next(spectra) for _ in group]) for group in pieces]
    return [_without_rounding(spectrum, label) for spectrum, label in zip(joined, labels, strict=True)]


def tracked_values(matrix: Float[Tensor, "*Q n n"], spectrum: Spectrum) -> Float[Tensor, "*Q n"]:
    r"""Eigenvalues of the matrix with their derivative :math:`d\lambda_i = v_i^\top dM\, v_i`.

    The derivative of any symmetric function of the eigenvalues, such as a log-determinant, is exact to first order
    even where single eigenvalues coincide; the derivative of `eigh` itself is not finite there.
    """
    if not (matrix.requires_grad and torch.is_grad_enabled()):
        return spectrum.values
    quotients = (spectrum.vectors * (matrix @ spectrum.vectors)).sum(-2)
    return spectrum.values + (quotients - quotients.detach())


def _pieces(matrix: Float[Tensor, "*Q n n"]) -> list[Tensor]:
    """The matrix as jobs: a stack of large matrices is taken apart, small ones stay one call."""
    if matrix.ndim == 3 and matrix.shape[-1] >= SIDE_BY_SIDE_SIZE:
        return list(matrix.split(1))
    return [matrix]


def _joined(spectra: Sequence[Spectrum]) -> Spectrum:
    """The spectrum of a stack from those of its pieces."""
    if len(spectra) == 1:
        return spectra[0]
    return Spectrum(torch.cat([s.values for s in spectra]), torch.cat([s.vectors for s in spectra]))


def _side_by_side(jobs: Sequence[tuple[Tensor, str]]) -> list[Spectrum]:
    """One spectrum per job, in order; worker threads where at least two jobs are large and on the processor."""
    large = sum(m.shape[-1] >= SIDE_BY_SIDE_SIZE and m.device.type == "cpu" for m, _ in jobs)
    with _threads_kept() as threads:
        if min(large, threads) < 2:
            return [_eigh(matrix, label) for matrix, label in jobs]
        with ThreadPoolExecutor(min(large, threads)) as workers:
            return list(workers.map(_eigh, *zip(*jobs, strict=True)))


@contextmanager
def _threads_kept() -> Iterator[int]:
    """The caller's number of intra-op threads, set again on leaving.

    `torch.set_num_threads` does two things: it sets OpenMP and MKL in the calling thread alone, and it stores the
    number that threads started later begin with. A worker that sets 1 therefore leaves its caller at 2 but
    would leave every later thread at 1; one call here, in the caller, restores both.
    """
    threads = torch.get_num_threads()
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _eigh(matrix: Float[Tensor, "*Q n n"], label: str) -> Spectrum:
    """The spectrum of one job."""
    # Threads of one decomposition wait for each other at every column: with a second one, 1000 × 1000 takes
    # many times longer as soon as anything else runs. Set here because the setting belongs to the thread.
    torch.set_num_threads(1)
    try:
        with torch.no_grad():  # grad mode, too, belongs to the thread
            # In single precision LAPACK fails or returns NaN on Gram matrices of lower rank, such as of a few digits
            # whose border is black: tiny entries underflow there. In double it does not.
            values, vectors = torch.linalg.eigh(matrix.double())
            return Spectrum(values.to(matrix.dtype), vectors.to(matrix.dtype))
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise NotPositiveDefiniteError(
            f"The eigen-decomposition of {label} did not converge ({error}). Look for entries that are not "
            "finite, or that differ by more than double precision holds."
        ) from error


def _without_rounding(spectrum: Spectrum, label: str) -> Spectrum:
    """The spectrum with eigenvalues that are negative within rounding set to zero."""
    values = spectrum.values
    tolerance = 10 * values.shape[-1] * torch.finfo(values.dtype).eps * values.abs().amax(-1, keepdim=True)
    if bool((values < -tolerance).any()):
        raise NotPositiveDefiniteError(
            f"The smallest eigenvalue of {label} is {values.min().item():.3e}, below zero by more than rounding; "
            "a positive semi-definite matrix was expected. Build it as a Gram matrix, or compute it in float64."
        )
    return Spectrum(values.clamp_min(0.0), spectrum.vectors)
