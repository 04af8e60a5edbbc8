"""The curvature of a model on data.

A model and data give a structured matrix: the generalized Gauss–Newton H = Σ_n Ĵ_nᵀ Λ_n Ĵ_n of the (averaged)
network's outputs, positive semi-definite, summed over data, without the prior. `full`, `diag`, `kfac` and `tkfac` share
one signature. The tensor layout, ``a: (N, S, R, Q, D)`` and ``g: (N, S, R, Q, G)``, is defined in
`jacobian_factors.py`; how a pass is captured, in `capture.py`. As everywhere in torch, the result carries a graph
unless it is computed under `torch.no_grad()`.
"""

from .coverage import Coverage, CoverageRow, coverage
from .ggn import diag, full, kfac, tkfac
from .jacobian_factors import DirectVJP, LookupFactors, MergedFactors, OuterFactors
from .registry import Curvature
from .rules import register_rule

__all__ = [
    "Coverage",
    "CoverageRow",
    "Curvature",
    "DirectVJP",
    "LookupFactors",
    "MergedFactors",
    "OuterFactors",
    "coverage",
    "diag",
    "full",
    "kfac",
    "register_rule",
    "tkfac",
]
