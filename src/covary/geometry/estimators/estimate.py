"""Estimates: numbers with what is not known about them."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

NORMAL_95 = 1.959964  # 95 % of a normal variable lies within so many standard deviations of its mean


class Estimate(NamedTuple):
    """A number, or several, with the half-width of a 95 % interval around each; float64, on the CPU.

    Arguments:
        value: The estimate, 0-d or (k,).
        error: The half-width, of the same shape: the truth lies within value ± error for 95 of 100 seeds.
        num_products: How many products with the matrix it took.
    """

    value: Float[Tensor, "*k"]
    error: Float[Tensor, "*k"]
    num_products: int


def error_of_mean(squared_norm: Float[Tensor, ""], num_probes: int) -> Float[Tensor, ""]:
    r"""The half-width of a 95 % interval around a mean of :math:`g^\top B g` over random signs g.

    One probe has a variance of at most :math:`2 \|B\|_F^2`, and :math:`\|B g\|^2` has the mean :math:`\|B\|_F^2`: an
    estimate of the variance that is far less noisy than the scatter of a few probes, and on average not too small.

    Arguments:
        squared_norm: The mean of :math:`\|B g\|^2` over the probes.
        num_probes: The number of probes.
    """
    # Student's quantile to first order: a few probes of a matrix of low rank know its norm no better than this
    quantile = NORMAL_95 + (NORMAL_95**3 + NORMAL_95) / (4 * num_probes)
    return quantile * (2 * squared_norm / num_probes).sqrt()
