"""Discounted sums, natural-gradient steps and constant predictions by their definitions, from torch alone."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor


def discounted_sum(terms: Sequence[Tensor], decay: float) -> Tensor:
    """The sum of ρ^(T−t) times term t, each term with its own power."""
    last = len(terms) - 1
    return torch.stack([decay ** (last - number) * term for number, term in enumerate(terms)]).sum(0)


def categorical_constant(labels: Sequence[int]) -> float:
    """The mean of log f_y with the frequencies f of the classes; absent classes do not occur in it."""
    return sum(n / len(labels) * math.log(n / len(labels)) for n in Counter(labels).values())


def gaussian_constant(targets: Tensor, sigma: float) -> float:
    """The mean log-density of targets (N, C) about their mean, with noise σ."""
    residuals = targets - targets.mean(0)
    norm = targets.shape[1] * math.log(sigma * math.sqrt(2 * math.pi))
    return float(-(residuals.square().sum(1) / (2 * sigma**2)).mean()) - norm


def bernoulli_constant(targets: Tensor) -> float:
    """Minus the sum over outputs of the entropy of their frequencies, targets (N, C) with both values in each."""
    ones = targets.mean(0)
    return float((ones * ones.log() + (1 - ones) * (1 - ones).log()).sum())


def damped_natural_step(gradients: Tensor, num_batch: int, num_data: int, floor: float) -> Tensor:
    """The step of each parameter from gradients (K, P) of K minibatches, scaled to all data, one by one.

    With F = M/N times the variance over minibatches, the squared mean times the data read is the signal s: the mean
    over F plus its floor, times s / (s + F).
    """
    steps = []
    for column in gradients.T:
        mean = sum(column.tolist()) / len(column)
        variance = sum((value - mean) ** 2 for value in column.tolist()) / (len(column) - 1)
        fisher = num_batch / num_data * variance
        signal = mean**2 * num_batch * len(column) / num_data
        steps.append(mean / (fisher + floor * num_data) * signal / (signal + fisher))
    return torch.tensor(steps)


def mean_rotated(x: Tensor, angles: Tensor) -> Tensor:
    """The means over samples of points (N, 2) turned counter-clockwise by angles (N, S), one by one."""
    means = []
    for point, own in zip(x, angles, strict=True):
        turned = [torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])]) @ point for a in own]
        means.append(torch.stack(turned).mean(0))
    return torch.stack(means)


def linear_gaussian_objective(features: Tensor, y: Tensor, weight: Tensor, sigma: float, precision: float) -> Tensor:
    """Log-likelihood of y (N,) less half the log-determinant, of a linear model with these weights (2,)."""
    log_likelihood = torch.distributions.Normal(features @ weight, sigma).log_prob(y).sum()
    curvature = features.T @ features / sigma**2 + precision * torch.eye(len(weight))
    return log_likelihood - 0.5 * torch.logdet(curvature)
