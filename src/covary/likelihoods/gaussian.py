"""Real targets with noise of one size, or of one per output."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from .checks import as_outputs, check_outputs, check_real_targets, log_parameter

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
