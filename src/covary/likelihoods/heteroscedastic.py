"""Real targets with noise that depends on the input."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from .checks import as_outputs, check_exponent, check_outputs, check_real_targets
from .gaussian import HALF_LOG_2PI


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
