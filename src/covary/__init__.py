"""covary learns the symmetries of your data while your network trains.

The package follows the data: `data` -> `augment` p(x' | x, η) -> `networks` (the averaged f̂) -> `likelihoods` and
`priors` -> `curvature` (the GGN as a structured matrix of `linalg`) -> `evidence` (log Z in its terms) -> `hypergrad`
(its gradient in every hyperparameter) -> `fit` (weights and hyperparameters together), and `posterior` (the Laplace
posterior and its predictions). `layers` relax equivariance, `layer_summary` says what each layer became; `geometry` has
quantities that do not depend on the parametrization. `report`, which draws, is imported by its own name.

Conventions everywhere: log evidence, higher is better; curvature positive semi-definite; sums over data, never means.

Names are imported when they are first used, so that `import covary` and `covary --help` are fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        augment,
        curvature,
        data,
        errors,
        evidence,
        geometry,
        groups,
        hypergrad,
        layer_summary,
        layers,
        likelihoods,
        linalg,
        networks,
        posterior,
    )
    from .batches import as_batches
    from .config import EvalConfig, FitConfig, HyperConfig, WeightConfig
    from .curvature import Curvature
    from .evidence import EvidenceTerms, conditional_log_evidence, effective_parameters, log_evidence
    from .layer_summary import prune, summarize_layers
    from .likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Poisson
    from .memory import keep_memory
    from .models import Model
    from .networks import Averaged
    from .posterior import Laplace
    from .priors import Prior
    from .training import Callback, Checkpoints, EvidenceLearner, Run, fit, load, verdict

__version__ = "0.1.0"
__all__ = [
    "Averaged",
    "Bernoulli",
    "Callback",
    "Categorical",
    "Checkpoints",
    "Curvature",
    "EvalConfig",
    "EvidenceLearner",
    "EvidenceTerms",
    "FitConfig",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HyperConfig",
    "Laplace",
    "Model",
    "Poisson",
    "Prior",
    "Run",
    "WeightConfig",
    "as_batches",
    "augment",
    "conditional_log_evidence",
    "curvature",
    "data",
    "effective_parameters",
    "errors",
    "evidence",
    "fit",
    "geometry",
    "groups",
    "hypergrad",
    "keep_memory",
    "layer_summary",
    "layers",
    "likelihoods",
    "linalg",
    "load",
    "log_evidence",
    "networks",
    "posterior",
    "prune",
    "summarize_layers",
    "verdict",
]

# Module -> the names that it provides here; what is in `__all__` and not in this table is a module itself.
_PROVIDES = {
    "batches": ("as_batches",),
    "config": ("EvalConfig", "FitConfig", "HyperConfig", "WeightConfig"),
    "curvature": ("Curvature",),
    "evidence": ("EvidenceTerms", "conditional_log_evidence", "effective_parameters", "log_evidence"),
    "layer_summary": ("prune", "summarize_layers"),
    "likelihoods": ("Bernoulli", "Categorical", "Gaussian", "HeteroscedasticGaussian", "Poisson"),
    "memory": ("keep_memory",),
    "models": ("Model",),
    "networks": ("Averaged",),
    "posterior": ("Laplace",),
    "priors": ("Prior",),
    "training": ("Callback", "Checkpoints", "EvidenceLearner", "Run", "fit", "load", "verdict"),
}
_HOMES = {name: module for module, names in _PROVIDES.items() for name in names}


def __getattr__(name: str) -> Any:
    """An exported name, imported at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES.get(name, name)}")
    value = getattr(module, name) if name in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
