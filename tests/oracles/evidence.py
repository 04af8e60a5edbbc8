"""Evidences that are known: the linear-Gaussian model in closed form, one dimension by quadrature."""

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal


def linear_gaussian_log_evidence(x: Tensor, y: Tensor, sigma: Tensor, precision: Tensor) -> Tensor:
    """log N(y; 0, σ²I + X diag(1/δ) Xᵀ), differentiable in σ and δ."""
    covariance = sigma**2 * torch.eye(len(x)) + (x / precision) @ x.T
    return MultivariateNormal(torch.zeros(len(x)), covariance).log_prob(y)


def linear_gaussian_mode(x: Tensor, y: Tensor, sigma: float, precision: float) -> Tensor:
    """The maximum of the log joint over the weights."""
    return torch.linalg.solve(x.T @ x / sigma**2 + precision * torch.eye(x.shape[1]), x.T @ y / sigma**2)


def linear_gaussian_mode_distance(x: Tensor, y: Tensor, sigma: float, precision: float, weight: Tensor) -> Tensor:
    """The squared distance of the outputs from those of the mode in units of the noise, over its posterior mean."""
    mode = linear_gaussian_mode(x, y, sigma, precision)
    posterior = torch.linalg.inv(x.T @ x / sigma**2 + precision * torch.eye(x.shape[1]))
    return (x @ (weight - mode)).square().sum() / (x @ posterior @ x.T).trace()


def quadrature_log_evidence(log_joint, low: float, high: float, num_points: int = 20_001) -> Tensor:
    """log ∫ exp(log_joint(θ)) dθ by the trapezoidal rule."""
    grid = torch.linspace(low, high, num_points)
    values = torch.stack([log_joint(theta) for theta in grid])
    step = (high - low) / (num_points - 1)
    return torch.logsumexp(values, 0) + torch.log(torch.tensor(step))
