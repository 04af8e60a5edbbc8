"""Kernels of wide networks by their definitions: numerical integrals, loops over a Jacobian. From torch and scipy."""

import math
from itertools import pairwise

import torch
from scipy.integrate import dblquad
from torch import Tensor, nn
from torch.func import jacrev

from .curvature import flat_function

ACTIVATIONS = {
    "relu": (lambda u: max(u, 0.0), lambda u: float(u > 0)),
    "erf": (math.erf, lambda u: 2 / math.sqrt(math.pi) * math.exp(-(u**2))),
}


def moments(activation: str, covariance: Tensor) -> tuple[float, float]:
    """E[φ(u)φ(v)] and E[φ'(u)φ'(v)] of a Gaussian pair, by an adaptive integral over independent (r, t) in the plane.

    Polar coordinates of the whitened pair; φ = relu is smooth between the angles where u or v changes its sign.
    """
    root = torch.linalg.cholesky(covariance).tolist()
    function, derivative = ACTIVATIONS[activation]
    kinks = [math.pi / 2, math.atan2(-root[1][0], root[1][1])]
    corners = sorted({angle % math.pi for angle in kinks} | {0.0, math.pi})

    def integral(phi) -> float:
        def integrand(r: float, t: float) -> float:
            u, v = r * root[0][0] * math.cos(t), r * (root[1][0] * math.cos(t) + root[1][1] * math.sin(t))
            return phi(u) * phi(v) * r * math.exp(-r * r / 2) / (2 * math.pi)

        pieces = [(a + shift, b + shift) for a, b in pairwise(corners) for shift in (0, math.pi)]
        return sum(dblquad(integrand, a, b, 0, 12, epsabs=1e-12, epsrel=1e-12)[0] for a, b in pieces)

    return integral(function), integral(derivative)


def tangent_kernel(network: nn.Module, x: Tensor, metric: Tensor | None = None) -> Tensor:
    """K[n, c, m, d] = Σ_p J[n, c, p] J[m, d, p] / M[p], from the whole Jacobian."""
    function, theta = flat_function(network, x)
    jacobian = jacrev(function)(theta)
    scaled = jacobian if metric is None else jacobian / metric
    return torch.einsum("ncp,mdp->ncmd", scaled, jacobian)
