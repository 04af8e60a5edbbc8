"""Decompositions of a curvature that all processes have alike, divided among them."""

from collections.abc import Sequence

import torch

from ..distributed import Parts, divided, place
from ..linalg import Block
from ..linalg.eigen import PARALLEL_SIZE, Job, Solve, in_parallel
from ..linalg.psd import Shifts


def decompose(curvature: Block, shifts: Shifts, *, vectors: bool = True) -> None:
    """Decompose all blocks; under a process group each large matrix in one process. All processes call it.

    Arguments:
        curvature: The curvature, equal in all processes.
        shifts: The shift of each block.
        vectors: Whether eigenvectors are needed.
    """
    curvature.decompose(shifts, vectors=vectors, run=in_parallel if place()[1] == 1 else _divided)


def _divided(solve: Solve, jobs: Sequence[Job]) -> list[Parts]:
    """One result per job, in order: of large matrices from the process that decomposes it, of others its own."""
    large = [number for number, (matrix, _, _) in enumerate(jobs) if matrix.shape[-1] >= PARALLEL_SIZE]
    if len(large) < 2:
        return in_parallel(solve, jobs)
    found = divided(
        lambda items: in_parallel(solve, [jobs[large[item]] for item in items]),
        [_cost(jobs[number]) for number in large],
        jobs[large[0]][0].device,
    )
    small = [number for number in range(len(jobs)) if number not in large]
    results = dict(zip(large, found, strict=True)) | dict(
        zip(small, in_parallel(solve, [jobs[number] for number in small]), strict=True)
    )
    return [results[number] for number in range(len(jobs))]


def _cost(job: Job) -> int:
    """The cost of a decomposition, in units of one product of single-precision numbers."""
    matrix, _, estimated = job
    single = estimated and matrix.dtype != torch.float64
    return len(matrix.reshape(-1, *matrix.shape[-2:])) * matrix.shape[-1] ** 3 * (1 if single else 2)
