"""Likelihoods by another definition: torch.distributions, and curvature as a Hessian. Torch only."""

import torch
from torch.distributions import Bernoulli, Categorical, Normal, Poisson
from torch.func import hessian, vmap


def categorical(outputs, targets, temperature):
    return Categorical(probs=(outputs / temperature).softmax(-1), validate_args=False).log_prob(targets)


def gaussian(outputs, targets, sigma):
    return Normal(outputs, sigma, validate_args=False).log_prob(targets.reshape(outputs.shape)).sum(-1)


def bernoulli(outputs, targets):
    return Bernoulli(probs=outputs.sigmoid(), validate_args=False).log_prob(targets.reshape(outputs.shape)).sum(-1)


def poisson(outputs, targets):
    return Poisson(rate=outputs.exp(), validate_args=False).log_prob(targets.reshape(outputs.shape)).sum(-1)


def heteroscedastic(outputs, targets):
    means, log_sigma = outputs.chunk(2, -1)
    return Normal(means, log_sigma.exp(), validate_args=False).log_prob(targets.reshape(means.shape)).sum(-1)


def heteroscedastic_fisher(outputs):
    """The mean of −∇²_f log p(y | f) over y, by Gauss–Hermite nodes that are exact up to y⁵."""
    total = torch.zeros(len(outputs), outputs.shape[1], outputs.shape[1])
    num_targets = outputs.shape[1] // 2
    nodes, weights = torch.tensor([-(3.0**0.5), 0.0, 3.0**0.5]), torch.tensor([1 / 6, 2 / 3, 1 / 6])
    for choice in torch.cartesian_prod(*[torch.arange(3)] * num_targets).reshape(-1, num_targets):
        means, log_sigma = outputs.chunk(2, -1)
        targets = means + log_sigma.exp() * nodes[choice]
        total += weights[choice].prod() * curvature(heteroscedastic, outputs, targets)
    return total


def categorical_positions(outputs, targets, ignored):
    """One position after the other: outputs (N, C, P), targets (N, P)."""
    each = [
        torch.where(y == ignored, 0.0, Categorical(logits=f, validate_args=False).log_prob(y.clamp(min=0)))
        for f, y in zip(outputs.unbind(-1), targets.unbind(-1), strict=True)
    ]
    return torch.stack(each, -1).sum(-1)


def curvature(log_prob, outputs, targets):
    """Λ = −∇²_f log p(y | f) of each datum, shape (N, C, C)."""
    return -vmap(hessian(log_prob))(outputs, targets)


def all_signs(num):
    """Every vector of ±1, shape (2ⁿ, n)."""
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * num).reshape(-1, num)
