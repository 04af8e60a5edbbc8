"""Posteriors and their figures by brute force: dense matrices, loops, torch alone."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev


def jacobian(network: nn.Module, x: Tensor, names: list[str]) -> tuple[Tensor, Tensor]:
    """Outputs (N, C) and their Jacobian (N, C, P) in the weights of these names."""
    parameters = dict(network.named_parameters())
    sizes = [parameters[name].numel() for name in names]

    def function(theta: Tensor) -> Tensor:
        pieces = zip(names, theta.split(sizes), strict=True)
        return functional_call(network, {name: piece.view_as(parameters[name]) for name, piece in pieces}, (x,))

    theta = torch.cat([parameters[name].detach().flatten() for name in names])
    return function(theta).detach(), jacrev(function)(theta).detach()


def output_covariance(network: nn.Module, x: Tensor, names: list[str], precision: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (N, C) and J Σ Jᵀ (N, C, C), with Σ the inverse of the dense precision."""
    outputs, columns = jacobian(network, x, names)
    return outputs, torch.einsum("ncp,pq,ndq->ncd", columns, torch.linalg.inv(precision), columns)


def linear_regression(x: Tensor, y: Tensor, new: Tensor, precision: float, noise: float) -> tuple[Tensor, Tensor]:
    """Mean and variance of the targets at new inputs in Bayesian linear regression y = x W + noise, W ~ N(0, 1/δ)."""
    covariance = torch.linalg.inv(x.T @ x / noise**2 + precision * torch.eye(x.shape[1]))
    mean = new @ covariance @ x.T @ y / noise**2
    variance = torch.stack([row @ covariance @ row for row in new]) + noise**2
    return mean, variance[:, None].expand_as(mean)


def softmax_integral(mean: Tensor, covariance: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
    """E[softmax f] of one datum by many samples."""
    noise = torch.randn(num_samples, len(mean), generator=generator)
    return (mean + noise @ torch.linalg.cholesky(covariance).T).softmax(-1).mean(0)


def sigmoid_integral(mean: float, variance: float) -> float:
    """E[sigmoid f] by the trapezoidal rule, to rounding."""
    grid = torch.linspace(-12, 12, 200_001)
    density = torch.exp(-(grid**2) / 2) / (2 * torch.pi) ** 0.5
    return float(torch.trapezoid(density * torch.sigmoid(mean + variance**0.5 * grid), grid))


def dirichlet_laplace(alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the Laplace approximation of a Dirichlet in the softmax basis, by the Hessian."""
    size = len(alpha)
    centering = torch.eye(size) - 1 / size
    mode = centering @ alpha.log()
    hessian = torch.func.hessian(lambda f: -(alpha * f.log_softmax(-1)).sum())(mode)
    return mode, torch.linalg.pinv(centering @ hessian @ centering)


def ece(probabilities: Tensor, targets: Tensor, num_bins: int) -> float:
    """Expected calibration error by a loop over bins (lower, upper]."""
    total, rows = 0.0, list(zip(probabilities, targets, strict=True))
    for b in range(num_bins):
        inside = [(p, y) for p, y in rows if b / num_bins < float(p.max()) <= (b + 1) / num_bins]
        if inside:
            accuracy = sum(float(int(p.argmax()) == int(y)) for p, y in inside) / len(inside)
            confidence = sum(float(p.max()) for p, _ in inside) / len(inside)
            total += len(inside) / len(rows) * abs(accuracy - confidence)
    return total


def auroc(positive: Tensor, negative: Tensor) -> float:
    """The share of pairs that are in order, ties half."""
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive.tolist() for n in negative.tolist()]
    return sum(wins) / len(wins)
