"""Estimates: numbers with their errors, and how accurate they are over seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError

NORMAL_95 = 1.959964  # standard deviations around the mean that hold 95 % of a normal variable


class Estimate(NamedTuple):
    """A number, or several, with the half-width of a 95 % interval around each; float64, on the CPU.

    Arguments:
        value: The estimate, 0-d or (k,).
        error: The half-width, of the same shape: the truth is within value ± error for 95 of 100 seeds.
        num_products: The number of products with the matrix that it took.

    Example:
        >>> estimate = Estimate(torch.tensor(2.0), torch.tensor(0.1), num_products=30)
        >>> f"{estimate.value:.1f} ± {estimate.error:.1f}"
        '2.0 ± 0.1'
    """

    value: Float[Tensor, "*k"]
    error: Float[Tensor, "*k"]
    num_products: int


class Accuracy(NamedTuple):
    """The accuracy of an estimator over seeds."""

    num_covered: int  # for how many seeds the intervals held the truth, all of them where there are several values
    num_seeds: int
    largest_error: float  # the largest relative deviation from the truth, over seeds and values
    num_products: int  # the number of products of one estimate


def accuracy(estimates: Sequence[Estimate], truth: Float[Tensor, "*k"]) -> Accuracy:
    """The accuracy of estimates with different seeds."""
    if not estimates:
        raise DataError("Expected the estimates of at least one seed, got none.")
    deviations = [(estimate.value - truth).abs() for estimate in estimates]
    covered = [bool((d <= e.error).all()) for d, e in zip(deviations, estimates, strict=True)]
    largest = torch.stack([deviation / truth.abs() for deviation in deviations]).max()
    return Accuracy(sum(covered), len(estimates), float(largest), estimates[0].num_products)


def error_of_mean(squared_norm: Float[Tensor, ""], num_probes: int) -> Float[Tensor, ""]:
    r"""The half-width of a 95 % interval around a mean of :math:`g^\top B g` over random signs g.

    One probe has a variance of at most :math:`2 \|B\|_F^2`, and :math:`\|B g\|^2` has the mean :math:`\|B\|_F^2`: an
    estimate of the variance that is far less noisy than the scatter of a few probes, and on average not too small.

    Arguments:
        squared_norm: The mean of :math:`\|B g\|^2` over the probes.
    """
    # Student's quantile to first order: a few probes of a matrix of low rank know its norm no better than this
    quantile = NORMAL_95 + (NORMAL_95**3 + NORMAL_95) / (4 * num_probes)
    return quantile * (2 * squared_norm / num_probes).sqrt()
