"""Real targets with noise of one size, of one per output, or that depends on the input."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from .checks import as_outputs, check_exponent, check_outputs, check_real_targets, log_parameter

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Gaussian(nn.Module):
    r"""Real targets with independent noise, :math:`y_c \sim \mathcal N(f_c, \sigma_c^2)`.

    Arguments:
        sigma_noise: The standard deviation :math:`\sigma = \exp(s) > 0` of all outputs, or one for each of them, with s
            the parameter `log_sigma_noise`.
        learn_sigma_noise: Whether the noise is a hyperparameter.

    Example:
        >>> import torch
        >>> from covary import Gaussian
        >>> likelihood = Gaussian(sigma_noise=0.5)
        >>> round(likelihood.log_prob(torch.zeros(3, 1), torch.tensor([0.0, 0.5, -0.5])).item(), 3)
        -1.677
    """

    def __init__(self, sigma_noise: float | Sequence[float] = 1.0, learn_sigma_noise: bool = True) -> None:
        super().__init__()
        self.log_sigma_noise = log_parameter("sigma_noise", sigma_noise, learn_sigma_noise)

    @property
    def sigma_noise(self) -> Float[Tensor, "..."]:
        """Standard deviation σ > 0 of the observation noise, shape () or (C,)."""
        return self.log_sigma_noise.exp()

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless targets are finite, (N, C) or (N,) if C is 1, in the dtype of the outputs."""
        check_outputs(outputs)
        check_real_targets("Gaussian", outputs, targets)
        if self.log_sigma_noise.ndim and outputs.shape[1] % len(self.log_sigma_noise):
            raise ShapeError(
                f"Expected outputs of shape (N, {len(self.log_sigma_noise)}), one for each sigma_noise, got "
                f"{tuple(outputs.shape)}. Pass one sigma_noise, or one for each output."
            )

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Float[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_n \log \mathcal N(y_n; f_n, \sigma^2 I)`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Float[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\sum_c -(y_c - f_c)^2 / 2\sigma_c^2 - \log(\sigma_c \sqrt{2\pi})` of each datum."""
        log_sigma = self._log_sigma(outputs)
        residuals = (as_outputs(targets, outputs) - outputs) / log_sigma.exp()
        return (-0.5 * residuals.square() - log_sigma - HALF_LOG_2PI).flatten(1).sum(1)

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        r"""Product :math:`L \epsilon` with :math:`L = \mathrm{diag}(1/\sigma)`, so :math:`L L^T = \Lambda`."""
        return epsilon / self._log_sigma(outputs).exp()

    def mean(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N C ..."]:
        """Predictive mean f itself."""
        return outputs

    def noise_variance(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "..."]:
        r"""Variance :math:`\sigma^2` of the noise, broadcastable to the outputs."""
        return (2 * self._log_sigma(outputs)).exp()

    def _log_sigma(self, outputs: Tensor) -> Tensor:
        """Logarithms of σ, broadcastable to the outputs, whose positions may be flattened."""
        log_sigma = self.log_sigma_noise.to(outputs)
        if log_sigma.ndim == 0:
            return log_sigma
        each = log_sigma.repeat_interleave(outputs.shape[1] // len(log_sigma))
        return each.reshape(-1, *[1] * (outputs.ndim - 2))


class HeteroscedasticGaussian(nn.Module):
    r"""Real targets with noise that the network predicts, :math:`y_d \sim \mathcal N(m_d, e^{2 s_d})`.

    Of the 2D outputs of a datum the first D are the means m, the others the logarithms s of the standard deviations.
    Λ is the Fisher information :math:`\mathrm{diag}(e^{-2s}, 2)`, the mean of :math:`-\nabla^2_f \log p(y | f)` over y:
    the latter depends on the target and may be indefinite. There are no hyperparameters.

    Example:
        >>> import torch
        >>> from covary import HeteroscedasticGaussian
        >>> likelihood = HeteroscedasticGaussian()
        >>> outputs = torch.tensor([[1.0, 0.0]])  # mean 1, standard deviation e^0
        >>> likelihood.mean(outputs), likelihood.noise_variance(outputs)
        (tensor([[1.]]), tensor([[1.]]))
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless there are two outputs per target, and targets are finite, in the outputs' dtype."""
        check_outputs(outputs)
        if outputs.shape[1] % 2:
            raise ShapeError(
                "Expected an even number of outputs for HeteroscedasticGaussian, a mean and a log standard deviation "
                f"per target, got {outputs.shape[1]}. Give the network twice as many outputs as targets."
            )
        means, log_sigma = outputs.chunk(2, 1)
        check_real_targets("HeteroscedasticGaussian", means, targets)
        check_exponent("HeteroscedasticGaussian", "variances and their inverses", 2 * log_sigma.abs())

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Float[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_n \log \mathcal N(y_n; m_n, e^{2 s_n})`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Float[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\sum_d -(y_d - m_d)^2 e^{-2 s_d} / 2 - s_d - \log\sqrt{2\pi}` of each datum."""
        means, log_sigma = outputs.chunk(2, 1)
        residuals = (as_outputs(targets, means) - means) * (-log_sigma).exp()
        return (-0.5 * residuals.square() - log_sigma - HALF_LOG_2PI).flatten(1).sum(1)

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        r"""Product :math:`L \epsilon` with :math:`L = \mathrm{diag}(e^{-s}, \sqrt 2)`, so :math:`L L^T = \Lambda`."""
        first, second = epsilon.chunk(2, 1)
        return torch.cat([first * (-outputs.chunk(2, 1)[1]).exp(), math.sqrt(2) * second], dim=1)

    def mean(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N D ..."]:
        """Predictive mean m, the first half of the outputs."""
        return outputs.chunk(2, 1)[0]

    def noise_variance(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N D ..."]:
        r"""Variance :math:`e^{2 s}` of the noise of each target."""
        return (2 * outputs.chunk(2, 1)[1]).exp()
