"""covary learns the symmetries of your data while your network trains.

The package reads in the direction of the data: `data` -> `augment` p(x' | x, η) -> `networks` (the averaged f̂) ->
`likelihoods` and `priors` -> `curvature` (the GGN as a structured matrix of `linalg`).

Conventions everywhere: log evidence, higher is better; curvature positive semi-definite; sums over data, never means.
"""

from . import augment, curvature, data, linalg, networks
from .likelihoods import Bernoulli, Categorical, Gaussian
from .networks import Averaged
from .priors import Prior

__version__ = "0.1.0"
__all__ = [
    "Averaged",
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Prior",
    "augment",
    "curvature",
    "data",
    "linalg",
    "networks",
]
