"""Summaries of relaxed layers after training, and their pruning.

A layer is a sum of paths, and the evidence determines by their priors how much of each is used. `summarize_layers`
measures it, path by path and layer by layer; `prune` removes what is not used, and `covary.load` loads the result.
Effective numbers of parameters are sums over data; an equivariance error is relative to the layer's own outputs.
"""

from .equivariance import EquivarianceErrors, equivariance_errors
from .prune import Pruned, prune
from .summary import LayerSummary, relaxed_layers, summarize_layers

__all__ = [
    "EquivarianceErrors",
    "LayerSummary",
    "Pruned",
    "equivariance_errors",
    "prune",
    "relaxed_layers",
    "summarize_layers",
]
