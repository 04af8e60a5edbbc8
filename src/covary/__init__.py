"""covary learns the symmetries of your data while your network trains.

The package reads in the direction of the data: `data` -> `augment` p(x' | x, η) -> `networks` (the averaged f̂) ->
`likelihoods` and `priors` -> `curvature` (the GGN as a structured matrix of `linalg`) -> `evidence` (log Z in its
terms) -> `hypergrad` (its gradient in every hyperparameter) -> `fit` (weights and hyperparameters together), and
`posterior` (what the network does not know). `layers` relax equivariance, `layer_summary` tells what each became;
`geometry` holds what does not depend on the parametrization.

Conventions everywhere: log evidence, higher is better; curvature positive semi-definite; sums over data, never means.
"""

from . import augment, curvature, data, geometry, groups, hypergrad, layer_summary, layers, linalg, networks, posterior
from .config import FitConfig
from .evidence import EvidenceTerms, conditional_log_evidence, effective_parameters, log_evidence
from .layer_summary import prune
from .likelihoods import Bernoulli, Categorical, Gaussian
from .networks import Averaged
from .posterior import Laplace
from .priors import Prior
from .training import Run, fit

__version__ = "0.1.0"
__all__ = [
    "Averaged",
    "Bernoulli",
    "Categorical",
    "EvidenceTerms",
    "FitConfig",
    "Gaussian",
    "Laplace",
    "Prior",
    "Run",
    "augment",
    "conditional_log_evidence",
    "curvature",
    "data",
    "effective_parameters",
    "fit",
    "geometry",
    "groups",
    "hypergrad",
    "layer_summary",
    "layers",
    "linalg",
    "log_evidence",
    "networks",
    "posterior",
    "prune",
]
