"""Likelihoods: log p(y | f) and a square root of its output curvature Λ(f).

Layout: outputs f are (N, C), or (N, C, ...) with positions such as pixels or steps behind the channels, flattened in
their order or not. Signs: log-probabilities, higher is better, summed over data; Λ is per datum and positive
semi-definite, and L is its root, L Lᵀ = Λ. Λ = −∇²_f log p(y | f), or its mean over y where it depends on the target.
"""

from .bernoulli import Bernoulli
from .categorical import Categorical
from .gaussian import Gaussian, HeteroscedasticGaussian
from .poisson import Poisson
from .protocol import Likelihood, RankDeficient, TargetDependent, given

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "Poisson",
    "RankDeficient",
    "TargetDependent",
    "given",
]
