"""What did each relaxed layer become?

A layer is a sum of paths, and the evidence decides by their priors how much of each is used. `summarize_layers` says so
in numbers, path by path and layer by layer; `prune` removes what is not used, and `load_pruned` reads it back.
Effective numbers of parameters are sums over data; an equivariance error is relative to the layer's own outputs.
"""

from .equivariance import EquivarianceErrors, equivariance_errors
from .prune import Pruned, prune
from .pruned_file import PRUNED, load_pruned, save_pruned
from .summary import LayerSummary, relaxed_layers, summarize_layers

__all__ = [
    "PRUNED",
    "EquivarianceErrors",
    "LayerSummary",
    "Pruned",
    "equivariance_errors",
    "load_pruned",
    "prune",
    "relaxed_layers",
    "save_pruned",
    "summarize_layers",
]
