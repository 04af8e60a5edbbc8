"""Are the estimates as good as they say? Many seeds against the truth of a matrix that is small enough to form."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError
from ..sharpness import DEFAULT_EFFORT, Effort, estimate_sharpness
from .estimate import Estimate
from .operators import MatrixFree


class Accuracy(NamedTuple):
    """How an estimator did over seeds.

    Arguments:
        num_covered: For how many seeds the intervals held the truth, all of them where there are several values.
        num_seeds: How many seeds there were.
        largest_error: The largest relative deviation from the truth, over seeds and values.
        num_products: How many products one estimate took.
    """

    num_covered: int
    num_seeds: int
    largest_error: float
    num_products: int


def accuracy(estimates: Sequence[Estimate], truth: Float[Tensor, "*k"]) -> Accuracy:
    """The accuracy of estimates with different seeds.

    Arguments:
        estimates: One per seed, at least one.
        truth: What they estimate, in their shape.
    """
    if not estimates:
        raise DataError("Accuracy needs the estimates of at least one seed; none came.")
    deviations = [(estimate.value - truth).abs() for estimate in estimates]
    covered = [bool((d <= e.error).all()) for d, e in zip(deviations, estimates, strict=True)]
    largest = torch.stack([deviation / truth.abs() for deviation in deviations]).max()
    return Accuracy(sum(covered), len(estimates), float(largest), estimates[0].num_products)


def sharpness_accuracy(
    hessian: MatrixFree,
    ggn: MatrixFree,
    damping: float | int = 1.0,
    *,
    effort: Effort = DEFAULT_EFFORT,
    num_seeds: int = 100,
) -> dict[str, Accuracy]:
    """The accuracy of every quantity of `Sharpness`, by its name, for matrices of a few thousand rows.

    Arguments:
        hessian: The matrix for the trace and the eigenvalues.
        ggn: The positive semi-definite one for the log-determinant.
        damping: Its δ.
        effort: How many products each estimate may take.
        num_seeds: The number of seeds, from 0.
    """
    values = torch.linalg.eigvalsh(hessian.to_dense().double().cpu()).flip(0)
    dense = ggn.to_dense().double().cpu() / damping
    log_det = torch.linalg.slogdet(dense + torch.eye(len(dense), dtype=torch.float64))[1]
    truths = {"trace": values.sum(), "log_det": log_det, "eigenvalues": values[: effort.num_eigenvalues]}
    runs = [estimate_sharpness(hessian, ggn, damping, effort=effort, seed=seed) for seed in range(num_seeds)]
    return {name: accuracy([getattr(run, name) for run in runs], truth) for name, truth in truths.items()}
