"""What survives a change of parametrization?

Layout: a point is a flat vector θ, (P,), of the weights in the order of their names; ψ = φ(θ) are its coordinates in a
chart, and J = ∂ψ/∂θ has a row per ψ. Objects at a point carry their chart and transform by `.to(chart)`. Signs: the
curvature of a loss is positive at a minimum; log-densities, higher is better; sums over data.
"""

from .canonical import canonical_scale
from .charts.chart import CARTESIAN, Atlas, Chart, transition
from .charts.network import InChart, flat_outputs, flatten, network_chart, side_by_side, unflatten
from .charts.polar import polar_atlas, polar_of
from .charts.standard import (
    affine,
    cube,
    elementwise,
    exponential,
    flow,
    inverse_softplus,
    logarithm,
    scaling,
    softplus,
)
from .densities import Jeffreys, find_mode, jeffreys, lebesgue_log_density, riemannian_log_density
from .descent import CartesianOptimizer, InvariantDescent, adam_rule, steepest
from .estimators.estimate import Estimate
from .estimators.krylov import estimate_log_det, top_eigenvalues
from .estimators.operators import MatrixFree, gauss_newton, loss_hessian
from .estimators.trace import estimate_log_det_preconditioned, estimate_trace
from .hessian import HessianOperator, hessian_operator, riemannian_hessian
from .kernels.finite import draw_network, empirical_ntk, finite_kernels, ntk_chart, ntk_in_chart, ntk_metric
from .kernels.infinite import InfiniteNetwork, nngp, ntk, standard_ntk
from .metrics.fisher import empirical_fisher_metric, fisher_metric, ggn_metric, kfac_metric
from .metrics.metric import Metric, diagonal_metric, euclidean_metric, flat_metric, optimizer_metric
from .objects import BilinearForm, Covector, Density, Operator, Point, Vector
from .sharpness import Sharpness, SharpnessConfig, SharpnessPair, sharpness

__all__ = [
    "CARTESIAN",
    "Atlas",
    "BilinearForm",
    "CartesianOptimizer",
    "Chart",
    "Covector",
    "Density",
    "Estimate",
    "HessianOperator",
    "InChart",
    "InfiniteNetwork",
    "InvariantDescent",
    "Jeffreys",
    "MatrixFree",
    "Metric",
    "Operator",
    "Point",
    "Sharpness",
    "SharpnessConfig",
    "SharpnessPair",
    "Vector",
    "adam_rule",
    "affine",
    "canonical_scale",
    "cube",
    "diagonal_metric",
    "draw_network",
    "elementwise",
    "empirical_fisher_metric",
    "empirical_ntk",
    "estimate_log_det",
    "estimate_log_det_preconditioned",
    "estimate_trace",
    "euclidean_metric",
    "exponential",
    "find_mode",
    "finite_kernels",
    "fisher_metric",
    "flat_metric",
    "flat_outputs",
    "flatten",
    "flow",
    "gauss_newton",
    "ggn_metric",
    "hessian_operator",
    "inverse_softplus",
    "jeffreys",
    "kfac_metric",
    "lebesgue_log_density",
    "logarithm",
    "loss_hessian",
    "network_chart",
    "nngp",
    "ntk",
    "ntk_chart",
    "ntk_in_chart",
    "ntk_metric",
    "optimizer_metric",
    "polar_atlas",
    "polar_of",
    "riemannian_hessian",
    "riemannian_log_density",
    "scaling",
    "sharpness",
    "side_by_side",
    "softplus",
    "standard_ntk",
    "steepest",
    "top_eigenvalues",
    "transition",
    "unflatten",
]
