"""What did each relaxed layer become?

A layer is a sum of paths, and the evidence decides by their priors how much of each is used. `read_layers` says so in
numbers, path by path and layer by layer; `simplify` takes out what is not used, and `load_simplified` reads back what
a run left of it. Effective numbers of parameters are sums over data; an equivariance error is relative to the layer's
own outputs.
"""

from .equivariance import EquivarianceErrors, equivariance_errors
from .prune import Simplified, simplify
from .pruned_file import SIMPLIFIED, load_simplified, save_simplified
from .summary import LayerReadout, read_layers, relaxed_layers

__all__ = [
    "SIMPLIFIED",
    "EquivarianceErrors",
    "LayerReadout",
    "Simplified",
    "equivariance_errors",
    "load_simplified",
    "read_layers",
    "relaxed_layers",
    "save_simplified",
    "simplify",
]
