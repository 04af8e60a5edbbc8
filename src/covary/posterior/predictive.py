r"""Predictions: the average of :math:`p(y | f)` over the posterior, by the linearized network or sampled ones.

Of a Gaussian of the outputs, :math:`f \sim N(m, \Sigma)`, the integral :math:`E[\mathrm{softmax}(f)]` has no closed
form. *probit* scales each logit down by its variance; *bridge* is the mean of the Dirichlet whose Laplace approximation
has this mean and these variances; *mc* samples, without bias.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._types import SampleAveraging
from ..batches import as_batches
from ..curvature.passes import ROWS_AT_ONCE
from ..errors import DataError, NotPositiveDefiniteError, StructureError
from ..likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..linalg.eigen import eigh_all
from ..models import Model
from ..noise import Stream, normal
from .fitting import run
from .function_space import Linearized, OutputChunk, covariance_chunks, variance_chunks

METHODS = ("glm", "mc")
LINKS = ("probit", "mc", "bridge")


class OutputDistribution(NamedTuple):
    """The Gaussian of the outputs: mean (N, C) and, datum by datum, covariance (N, C, C).

    Example:
        >>> import torch, covary
        >>> posterior = covary.Laplace(torch.nn.Linear(4, 3), (torch.randn(8, 4), torch.arange(8) % 3))
        >>> posterior.function_distribution(torch.zeros(2, 4)).covariance.shape
        torch.Size([2, 3, 3])
    """

    mean: Float[Tensor, "N C"]
    covariance: Float[Tensor, "N C C"]


class GaussianPrediction(NamedTuple):
    r"""The Gaussian of the targets: mean (N, C) and variance (N, C), observation noise :math:`\sigma^2` included.

    Example:
        >>> import torch, covary
        >>> model = covary.Model(torch.nn.Linear(4, 1), covary.Gaussian(0.5))
        >>> prediction = covary.Laplace(model, (torch.randn(8, 4), torch.zeros(8, 1))).predict(torch.zeros(2, 4))
        >>> bool((prediction.variance > 0.25).all())
        True
    """

    mean: Float[Tensor, "N C"]
    variance: Float[Tensor, "N C"]


class Sampling(NamedTuple):
    """How many samples, and the seed that they are a function of."""

    num_samples: int
    seed: int


def check_prediction(likelihood: Likelihood, method: str, link: str, num_samples: int) -> None:
    """Raise if these choices give no prediction."""
    if method not in METHODS:
        raise StructureError(f"Expected method 'glm' or 'mc', got {method!r}. Use 'glm' in nearly every case.")
    if link not in LINKS:
        raise StructureError(f"Expected link 'probit', 'mc' or 'bridge', got {link!r}. Choose one of these.")
    if num_samples < 1:
        raise DataError(f"Expected num_samples of at least 1, got {num_samples}. Pass for example 100.")
    if method == "mc":
        return
    if isinstance(likelihood, Bernoulli) and link == "bridge":
        raise StructureError(
            "Expected a Categorical likelihood for the Laplace bridge, got Bernoulli, whose outputs are independent. "
            "Use link='probit' or 'mc'."
        )
    if isinstance(likelihood, Categorical) and likelihood.num_classes is not None and link == "bridge":
        raise StructureError("Expected one class per datum for the Laplace bridge, got one per position. Use 'probit'.")
    if not isinstance(likelihood, Categorical | Bernoulli | Poisson | Gaussian | HeteroscedasticGaussian):
        raise StructureError(
            f"Expected a likelihood of covary for method='glm', got {type(likelihood).__name__}. Use method='mc', or "
            "function_distribution and your own integral."
        )


def predict_glm(linearized: Linearized, x: Tensor, link: str, sampling: Sampling) -> Tensor | GaussianPrediction:
    """Predictions of the linearized network: probabilities (N, C), expected counts, or mean and variance of reals."""
    likelihood = linearized.model.likelihood
    if isinstance(likelihood, Gaussian | HeteroscedasticGaussian | Poisson):
        parts = list(variance_chunks(linearized, x))
        mean, variance = torch.cat([part.mean for part in parts]), torch.cat([part.spread for part in parts])
        if isinstance(likelihood, Poisson):
            return (mean + variance / 2).exp()  # the mean of a log-normal variable
        if isinstance(likelihood, Gaussian):
            return GaussianPrediction(mean, variance + likelihood.noise_variance(mean).detach())
        (means, log_sigma), (own, of_log_sigma) = mean.chunk(2, 1), variance.chunk(2, 1)
        return GaussianPrediction(means, own + (2 * log_sigma + 2 * of_log_sigma).exp())  # E[e^2s] of a Gaussian s
    extra = 3 * sampling.num_samples if link == "mc" else 0
    if isinstance(likelihood, Bernoulli):
        return torch.cat([_bernoulli(part, link, sampling) for part in variance_chunks(linearized, x, extra)])
    assert isinstance(likelihood, Categorical), "predictions were checked before"
    parts_of = variance_chunks if link == "probit" else covariance_chunks
    return torch.cat([_categorical(likelihood, part, link, sampling) for part in parts_of(linearized, x, extra)])


def predict_mc(model: Model, x: Tensor, samples: Iterator[dict[str, Tensor]], seed: int) -> Tensor | GaussianPrediction:
    """Predictions averaged over sampled networks: probabilities (N, C), expected counts, or mean and variance."""
    mean, squares, noise, count = torch.zeros(()), torch.zeros(()), torch.zeros(()), 0
    likelihood = model.likelihood
    for state in samples:
        count += 1
        outputs = _outputs(model.network, x, seed, state)
        value = likelihood.mean(outputs)
        if isinstance(likelihood, Gaussian | HeteroscedasticGaussian):
            variance = likelihood.noise_variance(outputs).detach()
            noise = variance if count == 1 else noise + (variance - noise) / count
        # running mean and sum of squared deviations: no cancellation where samples nearly agree
        before = torch.zeros_like(value) if count == 1 else mean
        mean = before + (value - before) / count
        squares = (value - before) * (value - mean) if count == 1 else squares + (value - before) * (value - mean)
    if isinstance(likelihood, Gaussian | HeteroscedasticGaussian):
        return GaussianPrediction(mean, squares / count + noise)
    return mean


def _outputs(network: nn.Module, x: Tensor, seed: int, state: dict[str, Tensor]) -> Float[Tensor, "N C ..."]:
    num_samples = network.num_samples if isinstance(network, SampleAveraging) else 1
    positions = torch.arange(len(x), device=x.device)
    batches = as_batches((x, positions), max(1, ROWS_AT_ONCE // num_samples)).matching(network)
    return torch.cat([run(network, batch.x, batch.identity, seed, state) for batch in batches])


def _noise(part: OutputChunk, sampling: Sampling) -> Float[Tensor, "N S C"]:
    """Standard normal numbers, a function of (seed, position of the datum, sample)."""
    shape = (sampling.num_samples, part.mean.shape[1])
    return normal(sampling.seed, part.position, shape, stream=Stream.POSTERIOR, dtype=part.mean.dtype)


def _bernoulli(part: OutputChunk, link: str, sampling: Sampling) -> Float[Tensor, "N C"]:
    if link == "probit":
        return probit_logits(part.mean, part.spread).sigmoid()
    return logit_samples(part.mean, part.spread, _noise(part, sampling)).sigmoid().mean(1)


def _categorical(likelihood: Categorical, part: OutputChunk, link: str, sampling: Sampling) -> Float[Tensor, "N C ..."]:
    temperature = likelihood.temperature.detach().to(part.mean)
    mean, spread = part.mean / temperature, part.spread / temperature.square()
    if link == "probit":
        return likelihood.by_class(probit_logits(mean, spread)).softmax(1)
    if link == "bridge":
        return laplace_bridge(mean, spread)
    samples = output_samples(mean, spread, _noise(part, sampling))
    probabilities = likelihood.by_class(samples.flatten(0, 1)).softmax(1)
    return probabilities.unflatten(0, samples.shape[:2]).mean(1)


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
