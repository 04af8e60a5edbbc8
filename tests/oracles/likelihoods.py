"""Likelihoods by another definition: torch.distributions, and curvature as a Hessian. Torch only."""

import torch
from torch.distributions import Bernoulli, Categorical, Normal
from torch.func import hessian, vmap


def categorical(outputs, targets, temperature):
    return Categorical(probs=(outputs / temperature).softmax(-1), validate_args=False).log_prob(targets)


def gaussian(outputs, targets, sigma):
    return Normal(outputs, sigma, validate_args=False).log_prob(targets.reshape(outputs.shape)).sum(-1)


def bernoulli(outputs, targets):
    return Bernoulli(probs=outputs.sigmoid(), validate_args=False).log_prob(targets.reshape(outputs.shape)).sum(-1)


def curvature(log_prob, outputs, targets):
    """Λ = −∇²_f log p(y | f) of each datum, shape (N, C, C)."""
    return -vmap(hessian(log_prob))(outputs, targets)


def all_signs(num):
    """Every vector of ±1, shape (2ⁿ, n)."""
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * num).reshape(-1, num)
