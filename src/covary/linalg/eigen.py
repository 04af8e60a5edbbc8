"""Eigen-decompositions of symmetric positive semi-definite matrices, each computed once, with one thread."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ..errors import NotPositiveDefiniteError
from .checks import check_entries, describe
from .gram import Gram, as_gram

# Below this size a decomposition takes less than 30 ms, and a worker thread costs as much as it saves (measured).
PARALLEL_SIZE = 400

Job = tuple[Tensor, str, bool]  # a matrix, its name, and whether it is an estimate
Solve = Callable[[Tensor, str, bool], tuple[Tensor, ...]]  # from a job to its eigenvalues, and eigenvectors if wanted
Run = Callable[[Solve, Sequence[Job]], list[tuple[Tensor, ...]]]  # one result per job, in order


class Spectrum(NamedTuple):
    """Eigenvalues, ascending, shape (..., n), with eigenvectors in columns, shape (..., n, n); without graph."""

    values: Tensor
    vectors: Tensor


@final
class Factors:
    """The matrices that a structured matrix decomposes, with their spectra once these are computed.

    Arguments:
        matrices: Name in messages -> matrix, shape (n, n) or (Q, n, n); a tensor or a `Gram`.
        estimated: Whether the matrices are unbiased estimates of positive semi-definite ones, whose negative
            eigenvalues are noise and are set to zero.
    """

    def __init__(self, matrices: Mapping[str, Tensor | Gram], *, estimated: bool = False) -> None:
        self.grams = {part: as_gram(matrix) for part, matrix in matrices.items()}
        self.matrices = {part: gram.matrix for part, gram in self.grams.items()}
        self.estimated = estimated
        self._values: tuple[Tensor, ...] | None = None if self.matrices else ()
        self._spectra: tuple[Spectrum, ...] | None = None if self.matrices else ()

    @property
    def tracked(self) -> bool:
        """Whether eigenvalues need a derivative."""
        return torch.is_grad_enabled() and any(matrix.requires_grad for matrix in self.matrices.values())

    def pending(self, vectors: bool) -> bool:
        """Whether a decomposition, with eigenvectors or without, has yet to be computed."""
        return self._spectra is None if vectors else self._values is None

    def spectra(self, name: str) -> tuple[Spectrum, ...]:
        """One spectrum per matrix, computed on the first call."""
        if self._spectra is None:
            decompose({name: self})
        assert self._spectra is not None
        return self._spectra

    def values(self, name: str) -> tuple[Tensor, ...]:
        r"""The eigenvalues of each matrix, with their derivative :math:`d\lambda_i = v_i^\top dM\, v_i` if tracked.

        The derivative of any symmetric function of the eigenvalues, such as a log-determinant, is exact to first order
        even where single eigenvalues coincide; the derivative of `eigh` itself is not finite there.
        """
        if self.tracked:
            return tuple(map(_tracked_values, self.matrices.values(), self.spectra(name)))
        if self._values is None:
            decompose({name: self}, vectors=False)
        assert self._values is not None
        return self._values

    def keep(self, spectra: Sequence[Spectrum]) -> None:
        """Store the spectra that `decompose` computed, in the order of the matrices."""
        self._spectra = tuple(spectra)
        self._values = tuple(spectrum.values for spectrum in spectra)

    def keep_values(self, values: Sequence[Tensor]) -> None:
        """Store the eigenvalues of the compact matrices, padded with zeros."""
        self._values = tuple(map(_with_zeros, values, self.matrices.values()))


def in_parallel(solve: Solve, jobs: Sequence[Job]) -> list[tuple[Tensor, ...]]:
    """One result per job, in order; by worker threads if at least two jobs are large and on the CPU."""
    large = sum(m.shape[-1] >= PARALLEL_SIZE and m.device.type == "cpu" for m, _, _ in jobs)
    with _threads_kept() as threads:
        if min(large, threads) < 2:
            return [solve(*job) for job in jobs]
        with ThreadPoolExecutor(min(large, threads)) as workers:
            return list(workers.map(solve, *zip(*jobs, strict=True)))


def decompose(blocks: Mapping[str, Factors], *, vectors: bool = True, run: Run = in_parallel) -> None:
    """Decompose every matrix that is not decomposed yet, in parallel, and store the results in the blocks.

    Arguments:
        vectors: Whether eigenvectors are needed; eigenvalues alone take half the time.
        run: How the jobs are run.
    """
    with_vectors = {n: f for n, f in blocks.items() if (vectors or f.tracked) and f.pending(vectors=True)}
    _fill(with_vectors, attrgetter("matrix"), partial(eigh_all, run=run), Factors.keep)
    # those filled above are not pending any more, but the eigenvalues of few rows have none of the rounding of their
    # whole matrix, which a weak prior turns into nats
    few = {n: f for n, f in with_vectors.items() if any(gram.rows is not None for gram in f.grams.values())}
    without = few | {n: f for n, f in blocks.items() if f.pending(vectors=False)}
    _fill(without, Gram.compact, partial(eigvalsh_all, run=run), Factors.keep_values)


Solver = Callable[[Sequence[Tensor], Sequence[str], Sequence[bool]], list[Any]]


def _fill(
    blocks: Mapping[str, Factors],
    matrix_of: Callable[[Gram], Tensor],
    solver: Solver,
    keep: Callable[[Factors, list[Any]], None],
) -> None:
    labels = [describe(name, part) for name, factors in blocks.items() for part in factors.grams]
    estimated = [factors.estimated for factors in blocks.values() for _ in factors.grams]
    matrices = [matrix_of(gram) for factors in blocks.values() for gram in factors.grams.values()]
    found = iter(solver(matrices, labels, estimated))
    for factors in blocks.values():
        keep(factors, [next(found) for _ in factors.grams])


def _with_zeros(values: Float[Tensor, "*Qs m"], matrix: Float[Tensor, "*Q n n"]) -> Float[Tensor, "*Q n"]:
    """The eigenvalues of a matrix, ascending, from those of a smaller one with the same nonzero ones."""
    missing = matrix.shape[-1] - values.shape[-1]
    return functional.pad(values.to(matrix.dtype), (missing, 0)).reshape(matrix.shape[:-1])


def eigh_all(
    matrices: Sequence[Tensor], labels: Sequence[str] = (), estimated: Sequence[bool] = (), *, run: Run = in_parallel
) -> list[Spectrum]:
    r"""Spectra :math:`M = V \mathrm{diag}(\lambda) V^\top` of positive semi-definite matrices, without graph.

    Eigenvalues in :math:`[-t\,(|\lambda|_{\max} \epsilon + m), 0)`, with t = 10 · size and the relative accuracy ε and
    smallest normal number m of the type, are set to zero: Gram matrices are positive semi-definite by construction, and
    this is the accuracy of their entries and of `eigh`. A lower one raises `NotPositiveDefiniteError`, or is set to
    zero in an estimate. Estimates are decomposed in their own type, whose rounding is far below their noise, in half
    the time in single precision; all others in double precision. The caller's number of threads is unchanged
    afterwards.

    Arguments:
        matrices: Symmetric matrices, each (n, n) or a stack (Q, n, n).
        labels: The name of each matrix in messages; "the matrix" by default.
        estimated: For each matrix whether it is an unbiased estimate of a positive semi-definite one; none by default.
        run: How the jobs are run.
    """
    flags = estimated or [False] * len(matrices)
    pieces, labels = _jobs(matrices, labels, flags)
    spectra = iter(run(_eigh, [job for group in pieces for job in group]))
    joined = [_joined([Spectrum(*next(spectra)) for _ in group]) for group in pieces]
    return [
        Spectrum(_without_rounding(values, label, flag), vectors)
        for (values, vectors), label, flag in zip(joined, labels, flags, strict=True)
    ]


def eigvalsh_all(
    matrices: Sequence[Tensor], labels: Sequence[str] = (), estimated: Sequence[bool] = (), *, run: Run = in_parallel
) -> list[Tensor]:
    """The eigenvalues of `eigh_all` alone."""
    flags = estimated or [False] * len(matrices)
    pieces, labels = _jobs(matrices, labels, flags)
    values = (value for (value,) in run(_eigvalsh, [job for group in pieces for job in group]))
    joined = [torch.cat([next(values) for _ in group]) if len(group) > 1 else next(values) for group in pieces]
    return [_without_rounding(value, label, flag) for value, label, flag in zip(joined, labels, flags, strict=True)]


def _tracked_values(matrix: Float[Tensor, "*Q n n"], spectrum: Spectrum) -> Float[Tensor, "*Q n"]:
    quotients = (spectrum.vectors * (matrix @ spectrum.vectors)).sum(-2)
    return spectrum.values + (quotients - quotients.detach())


def _jobs(
    matrices: Sequence[Tensor], labels: Sequence[str], estimated: Sequence[bool]
) -> tuple[list[list[Job]], Sequence[str]]:
    """For each matrix, after a check of its entries, the pieces to decompose separately; and all labels."""
    detached = [matrix.detach() for matrix in matrices]
    labels = labels or [describe("")] * len(detached)
    for matrix, label in zip(detached, labels, strict=True):
        check_entries(matrix, label)
    flagged = zip(detached, labels, estimated, strict=True)
    return [[(piece, label, flag) for piece in _pieces(m)] for m, label, flag in flagged], labels


def _pieces(matrix: Float[Tensor, "*Q n n"]) -> list[Tensor]:
    """The matrix as jobs: a stack of large matrices is split, one of small matrices is one call."""
    if matrix.ndim == 3 and matrix.shape[-1] >= PARALLEL_SIZE:
        return list(matrix.split(1))
    return [matrix]


def _joined(spectra: Sequence[Spectrum]) -> Spectrum:
    """The spectrum of a stack from those of its pieces."""
    if len(spectra) == 1:
        return spectra[0]
    return Spectrum(torch.cat([s.values for s in spectra]), torch.cat([s.vectors for s in spectra]))


@contextmanager
def _threads_kept() -> Iterator[int]:
    """The caller's number of intra-op threads, restored on exit.

    `torch.set_num_threads` does two things: it sets OpenMP and MKL in the calling thread alone, and it stores the
    number with which later threads start. A worker that sets 1 therefore does not change its caller but would
    change every later thread; one call here, in the caller, restores both.
    """
    threads = torch.get_num_threads()
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _eigh(matrix: Float[Tensor, "*Q n n"], label: str, estimated: bool) -> Spectrum:
    """The spectrum of one job."""
    with _single_threaded(label):
        values, vectors = _solved(lambda m: tuple(torch.linalg.eigh(m)), matrix, estimated)
    return Spectrum(values.to(matrix.dtype), vectors.to(matrix.dtype))


def _eigvalsh(matrix: Float[Tensor, "*Q n n"], label: str, estimated: bool) -> tuple[Float[Tensor, "*Q n"]]:
    """The eigenvalues of one job."""
    with _single_threaded(label):
        (values,) = _solved(lambda m: (torch.linalg.eigvalsh(m),), matrix, estimated)
    return (values.to(matrix.dtype),)


def _solved(
    solve: Callable[[Tensor], tuple[Tensor, ...]], matrix: Float[Tensor, "*Q n n"], estimated: bool
) -> tuple[Tensor, ...]:
    """The result of LAPACK: for an estimate in its own type if that is finite, else in double precision.

    In single precision LAPACK fails or returns NaN on Gram matrices of lower rank, such as that of a few digits with a
    black border, because tiny entries underflow.
    """
    if estimated and matrix.dtype != torch.float64:
        with suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            found = solve(matrix)
            if all(bool(part.isfinite().all()) for part in found):
                return found
    return solve(matrix.double())


@contextmanager
def _single_threaded(label: str) -> Iterator[None]:
    """Run a job with one thread and without graph; raise `NotPositiveDefiniteError` if it does not converge."""
    # Threads of one decomposition wait for each other at every column: with two, 1000 × 1000 takes many times longer
    # as soon as anything else runs. Set here because the setting is per thread.
    torch.set_num_threads(1)
    try:
        with torch.no_grad():  # grad mode is per thread too
            yield
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise NotPositiveDefiniteError(
            f"The eigen-decomposition of {label} did not converge ({error}). Check for entries that are not finite, or "
            "whose magnitudes differ by more than double precision can represent."
        ) from error


def _without_rounding(values: Float[Tensor, "*Q n"], label: str, estimated: bool) -> Float[Tensor, "*Q n"]:
    """The eigenvalues, with those that are negative by rounding (in an estimate: by noise) set to zero."""
    kind = torch.finfo(values.dtype)
    # products of an inactive path are below the smallest normal number and are each rounded by up to that number, to
    # either side, so that a sum of 1/eps of them has an error of 1/sqrt(eps) times it
    tolerance = 10 * values.shape[-1] * (kind.eps * values.abs().amax(-1, keepdim=True) + kind.tiny / kind.eps**0.5)
    beyond = values < -tolerance
    if not estimated and bool(beyond.any()):
        raise NotPositiveDefiniteError(
            f"Expected {label} to be positive semi-definite, but its smallest eigenvalue is "
            f"{values[beyond].min().item():.3e}, below zero by more than rounding. Build it as a Gram matrix, or "
            "compute it in float64."
        )
    return values.clamp_min(0.0)
