r"""From a Gaussian of the outputs to probabilities: :math:`E[\mathrm{softmax}(f)]` for :math:`f \sim N(m, \Sigma)`.

The integral has no closed form. *probit* scales each logit down by its variance; *bridge* is the mean of the
Dirichlet whose Laplace approximation has this mean and these variances; *mc* samples, without bias.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import NotPositiveDefiniteError, StructureError
from ..linalg.eigen import eigh_all


def probit_logits(mean: Float[Tensor, "N C"], variance: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
    r"""Logits :math:`\kappa_c m_c` with :math:`\kappa_c = (1 + \frac\pi8 \Sigma_{cc})^{-1/2}` (MacKay 1992).

    The sigmoid of these approximates :math:`E[\mathrm{sigmoid}(f_c)]` to about 0.02; their softmax generalizes that,
    is exact for no variance and ignores covariances.
    """
    return mean * (1 + math.pi / 8 * variance).rsqrt()


def laplace_bridge(mean: Float[Tensor, "N C"], covariance: Float[Tensor, "N C C"]) -> Float[Tensor, "N C"]:
    r"""The mean :math:`\alpha / \sum\alpha` of the Dirichlet that the Laplace bridge gives (Hobbhahn et al. 2022).

    In the coordinates :math:`p = \mathrm{softmax}(f)`, :math:`\sum_c f_c = 0`, the log-density of Dirichlet(α) is
    :math:`\sum_c \alpha_c \log p_c(f)`. It is stationary where :math:`p \propto \alpha`, and minus its Hessian there,
    :math:`|\alpha| (\mathrm{diag}(p) - p p^\top)`, has on that subspace the inverse

    .. math:: \mu_c = \log\alpha_c - \tfrac1C\sum_u \log\alpha_u, \qquad
        \Sigma_{cc} = \tfrac1{\alpha_c}\bigl(1 - \tfrac2C\bigr) + \tfrac1{C^2}\sum_u \tfrac1{\alpha_u}.

    With :math:`\alpha_u = s e^{\mu_u}` the second gives the way back,

    .. math:: \alpha_c = \frac1{\Sigma_{cc}}\Bigl(1 - \frac2C + \frac{e^{\mu_c}}{C^2}\sum_u e^{-\mu_u}\Bigr).

    The softmax ignores a constant added to all outputs, so μ and Σ are first projected onto the subspace, which
    changes nothing in the distribution of p. It is good where the variances go with the mean as those of a Dirichlet
    do, small for probable classes, and can be off by much where they do not: where all outputs have nearly the same
    variance it is too uniform, however small that is.
    """
    num_outputs = mean.shape[1]
    if num_outputs < 2:
        raise StructureError(
            f"Expected two classes or more for the Laplace bridge, got {num_outputs}. Use Bernoulli with link='probit' "
            "for one output."
        )
    variance = centered_variance(covariance)
    if not bool((variance > 0).all()):
        raise NotPositiveDefiniteError(
            f"Expected variances above 0 for the Laplace bridge, got {variance.min().item():.3e}. Use link='probit', "
            "which is exact for no variance, or compute in float64."
        )
    mu = mean - mean.mean(1, keepdim=True)
    # logarithms throughout: exp(μ) of a confident network overflows in float32
    tail = mu + (-mu).logsumexp(1, keepdim=True) - 2 * math.log(num_outputs)
    constant = mean.new_tensor(1 - 2 / num_outputs).log()  # −∞ for two classes, where the term is absent
    return (torch.logaddexp(constant, tail) - variance.log()).softmax(1)


def centered_variance(covariance: Float[Tensor, "N C C"]) -> Float[Tensor, "N C"]:
    r"""The diagonal of :math:`\Pi\Sigma\Pi` with :math:`\Pi = I - \frac1C 1 1^\top`."""
    rows = covariance.mean(2)
    return covariance.diagonal(dim1=1, dim2=2) - 2 * rows + rows.mean(1, keepdim=True)


def output_samples(
    mean: Float[Tensor, "N C"], covariance: Float[Tensor, "N C C"], noise: Float[Tensor, "N S C"]
) -> Float[Tensor, "N S C"]:
    r"""Samples :math:`m + \Sigma^{1/2}\epsilon` with the symmetric root, which exists for singular Σ too."""
    values, vectors = eigh_all([covariance], ["the covariance of the outputs"])[0]
    return mean[:, None] + ((noise @ vectors) * values.sqrt()[:, None]) @ vectors.mT


def logit_samples(
    mean: Float[Tensor, "N C"], variance: Float[Tensor, "N C"], noise: Float[Tensor, "N S C"]
) -> Float[Tensor, "N S C"]:
    r"""Samples :math:`m_c + \sqrt{\Sigma_{cc}}\epsilon_c` of each output by itself."""
    return mean[:, None] + variance.sqrt()[:, None] * noise
