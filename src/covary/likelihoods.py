"""Likelihoods: log p(y | f) and a square root of its output curvature Λ(f).

Layout: outputs f are (N, C). Signs: log-probabilities, higher is better, summed over data;
Λ = −∇²_f log p(y | f) is (C, C) per datum and positive semi-definite, and L is its root, L Lᵀ = Λ.
"""

import math
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from .errors import DataError, ShapeError


@runtime_checkable
class Likelihood(Protocol):
    """The interface of a likelihood p(y | f); its learnable parameters are hyperparameters.

    Example:
        >>> from covary import Categorical
        >>> from covary.likelihoods import Likelihood
        >>> isinstance(Categorical(), Likelihood)
        True
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise `ShapeError` or `DataError` if outputs and targets do not match; called once per batch of a user."""
        ...

    def log_prob(self, outputs: Float[Tensor, "N C"], targets: Tensor) -> Float[Tensor, ""]:
        """Log-likelihood Σ_n log p(y_n | f_n), summed over data."""
        ...

    def log_prob_each(self, outputs: Float[Tensor, "N C"], targets: Tensor) -> Float[Tensor, "N"]:
        """Log-likelihood log p(y_n | f_n) of each datum."""
        ...

    def root_product(self, outputs: Float[Tensor, "N C"], epsilon: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Product L ε with L Lᵀ = Λ: column k of L for ε = e_k, a random probe of Λ for random signs ε."""
        ...

    def mean(self, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Predictive mean E[y | f]."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Hyperparameters with their names; those with `requires_grad` are learned."""
        ...


class Categorical(nn.Module):
    r"""Class probabilities :math:`p = \mathrm{softmax}(f / T)`, normalized at every temperature.

    Arguments:
        temperature: The temperature :math:`T = \exp(t) > 0`, with t the parameter `log_temperature`.
        learn_temperature: Whether the temperature is a hyperparameter.

    Example:
        >>> import torch
        >>> from covary import Categorical
        >>> outputs, targets = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
        >>> round(float(Categorical().log_prob(outputs, targets)), 3)
        -2.254
    """

    def __init__(self, temperature: float = 1.0, learn_temperature: bool = False) -> None:
        super().__init__()
        self.log_temperature = _log_parameter("temperature", temperature, learn_temperature)

    @property
    def temperature(self) -> Float[Tensor, ""]:
        """Temperature T > 0."""
        return self.log_temperature.exp()

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise `ShapeError` or `DataError` unless targets are (N,) class indices, int64, in [0, C)."""
        _check_outputs(outputs)
        num_outputs = outputs.shape[1]
        if targets.dtype != torch.int64:
            raise DataError(
                f"Expected class indices of dtype torch.int64 for Categorical, got {targets.dtype}. "
                "Pass targets.long() if they are indices, targets.argmax(-1) if they are one-hot."
            )
        _check_target_shape("Categorical", targets, [outputs.shape[:1]])
        wrong = targets[(targets < 0) | (targets >= num_outputs)]
        if len(wrong):
            raise DataError(
                f"Class {int(wrong[0])} is out of range: expected 0 to {num_outputs - 1}, as the network has "
                f"{num_outputs} outputs. Renumber the targets, or give the network more outputs."
            )

    def log_prob(self, outputs: Float[Tensor, "N C"], targets: Int[Tensor, "N"]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_n \log p_{n y_n}`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\log p_{n y_n}` of each datum."""
        return self._log_probs(outputs).gather(-1, targets.unsqueeze(-1)).squeeze(-1)

    def root_product(self, outputs: Float[Tensor, "N C"], epsilon: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        r"""Product :math:`L \epsilon` with :math:`L = (\mathrm{diag}(\sqrt p) - p \sqrt p^T) / T`.

        :math:`L L^T = (\mathrm{diag}(p) - p p^T) / T^2 = \Lambda`.
        """
        # √p from log p, never sqrt(p): the derivative of sqrt at an underflowed p is infinite.
        root = (0.5 * self._log_probs(outputs)).exp()
        residual = epsilon - root * (root * epsilon).sum(-1, keepdim=True)
        return root * residual / self.temperature.to(outputs)

    def mean(self, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Class probabilities softmax(f / T)."""
        return self._log_probs(outputs).exp()

    def _log_probs(self, outputs: Tensor) -> Tensor:
        return (outputs / self.temperature.to(outputs)).log_softmax(-1)


class Gaussian(nn.Module):
    r"""Real targets with independent noise, :math:`y \sim \mathcal N(f, \sigma^2 I)`.

    Arguments:
        sigma_noise: The standard deviation :math:`\sigma = \exp(s) > 0`, with s the parameter `log_sigma_noise`.
        learn_sigma_noise: Whether the noise is a hyperparameter.

    Example:
        >>> import torch
        >>> from covary import Gaussian
        >>> likelihood = Gaussian(sigma_noise=0.5)
        >>> round(likelihood.log_prob(torch.zeros(3, 1), torch.tensor([0.0, 0.5, -0.5])).item(), 3)
        -1.677
    """

    def __init__(self, sigma_noise: float = 1.0, learn_sigma_noise: bool = True) -> None:
        super().__init__()
        self.log_sigma_noise = _log_parameter("sigma_noise", sigma_noise, learn_sigma_noise)

    @property
    def sigma_noise(self) -> Float[Tensor, ""]:
        """Standard deviation σ > 0 of the observation noise."""
        return self.log_sigma_noise.exp()

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless targets are finite, (N, C) or (N,) if C is 1, in the dtype of the outputs."""
        _check_outputs(outputs)
        _check_real_targets("Gaussian", outputs, targets)

    def log_prob(self, outputs: Float[Tensor, "N C"], targets: Float[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_n \log \mathcal N(y_n; f_n, \sigma^2 I)`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C"], targets: Float[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`-\|y - f\|^2 / 2\sigma^2 - C \log(\sigma \sqrt{2\pi})` of each datum."""
        log_sigma = self.log_sigma_noise.to(outputs)
        residuals = (_as_columns(targets, outputs) - outputs) / log_sigma.exp()
        return -0.5 * residuals.square().sum(-1) - outputs.shape[1] * (log_sigma + 0.5 * math.log(2 * math.pi))

    def root_product(self, outputs: Float[Tensor, "N C"], epsilon: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        r"""Product :math:`L \epsilon` with :math:`L = I / \sigma`, so :math:`L L^T = I / \sigma^2 = \Lambda`."""
        return epsilon / self.sigma_noise.to(outputs)

    def mean(self, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Predictive mean f itself."""
        return outputs


class Bernoulli(nn.Module):
    r"""Independent binary targets, :math:`p(y_c = 1) = \mathrm{sigmoid}(f_c)`.

    Example:
        >>> import torch
        >>> from covary import Bernoulli
        >>> Bernoulli().mean(torch.tensor([[0.0]]))
        tensor([[0.5000]])
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless targets are 0 or 1, (N, C) or (N,) if C is 1, in the dtype of the outputs."""
        _check_outputs(outputs)
        _check_real_targets("Bernoulli", outputs, targets)
        wrong = targets[(targets != 0) & (targets != 1)]
        if len(wrong):
            raise DataError(
                f"Expected targets that are 0 or 1 for Bernoulli, got {float(wrong[0]):g}. "
                "Threshold the targets, or use Gaussian for real values."
            )

    def log_prob(self, outputs: Float[Tensor, "N C"], targets: Float[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_{nc} \log p(y_{nc} | f_{nc})`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C"], targets: Float[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\sum_c \log \mathrm{sigmoid}(\pm f_c)` of each datum, + where y is 1."""
        return logsigmoid((2 * _as_columns(targets, outputs) - 1) * outputs).sum(-1)

    def root_product(self, outputs: Float[Tensor, "N C"], epsilon: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        r"""Product :math:`L \epsilon` with :math:`L = \mathrm{diag}(\sqrt{p (1 - p)})`, so :math:`L L^T = \Lambda`."""
        return (0.5 * (logsigmoid(outputs) + logsigmoid(-outputs))).exp() * epsilon

    def mean(self, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Probabilities sigmoid(f) that y is 1."""
        return outputs.sigmoid()


def _log_parameter(name: str, value: float, learned: bool) -> nn.Parameter:
    """Logarithm of a positive number, as a scalar parameter in float64 that is cast to the outputs' dtype on use."""
    if not (math.isfinite(value) and value > 0):
        raise DataError(f"{name} must be finite and above 0, got {value}. Pass a positive number.")
    return nn.Parameter(torch.tensor(math.log(value), dtype=torch.float64), requires_grad=learned)


def _as_columns(targets: Tensor, outputs: Tensor) -> Tensor:
    """Targets in the shape of the outputs, (N,) becoming (N, 1)."""
    return targets.reshape(outputs.shape) if targets.ndim == 1 else targets


def _check_outputs(outputs: Tensor) -> None:
    if outputs.ndim != 2:
        raise ShapeError(
            f"The network must return outputs of shape (N, C), got {tuple(outputs.shape)}. "
            "Flatten or reduce every axis but the first and the last."
        )
    if not outputs.is_floating_point():
        raise DataError(f"Outputs must be floating, got {outputs.dtype}. Return logits or means, not classes.")
    if not outputs.isfinite().all():
        raise DataError(
            f"Outputs must be finite, got {int((~outputs.isfinite()).sum())} of {outputs.numel()} NaN or infinite. "
            "Check the inputs for NaN, or lower the learning rate."
        )


def _check_real_targets(name: str, outputs: Tensor, targets: Tensor) -> None:
    num_data, num_outputs = outputs.shape
    column = [(num_data,)] if num_outputs == 1 else []
    _check_target_shape(name, targets, [(num_data, num_outputs), *column])
    if targets.dtype != outputs.dtype:
        raise DataError(
            f"Expected targets in the dtype of the outputs for {name}, {outputs.dtype}, got {targets.dtype}. "
            f"Pass targets.to({outputs.dtype})."
        )
    if not targets.isfinite().all():
        raise DataError(
            f"Targets must be finite, got {int((~targets.isfinite()).sum())} of {targets.numel()} NaN or infinite. "
            "Remove those data or fill them in."
        )


def _check_target_shape(name: str, targets: Tensor, shapes: list[tuple[int, ...]]) -> None:
    if tuple(targets.shape) not in [tuple(shape) for shape in shapes]:
        expected = " or ".join(str(tuple(shape)) for shape in shapes)
        raise ShapeError(
            f"Expected targets of shape {expected} for {name}, got {tuple(targets.shape)}. "
            "Pass one target per datum, and a network with one output per target entry or class."
        )
