"""What survives a change of parametrization?

Layout: a point is a flat vector θ, (P,), of the weights in the order of their names; ψ = φ(θ) are its coordinates in a
chart, and J = ∂ψ/∂θ has a row per ψ. Objects at a point carry their chart and transform by `.to(chart)`. Signs: the
curvature of a loss is positive at a minimum; log-densities, higher is better; sums over data.
"""

from .charts.canonical import canonical_scale
from .charts.chart import CARTESIAN, Atlas, Chart, transition
from .charts.elementwise import cube, elementwise, exponential, inverse_softplus, logarithm, softplus
from .charts.flow import Invertible, flow
from .charts.linear import affine, scaling
from .charts.network import network_chart, side_by_side
from .charts.polar import polar, polar_atlas, polar_of
from .charts.weight_norm import CartesianOptimizer
from .densities import Jeffreys, find_mode, jeffreys, lebesgue_log_density, riemannian_log_density
from .descent import DescentState, InvariantDescent, StepRule, adam_rule, steepest
from .estimators.accuracy import Accuracy, sharpness_accuracy
from .estimators.estimate import Estimate
from .estimators.lanczos import top_eigenvalues
from .estimators.log_det import estimate_log_det
from .estimators.operators import MatrixFree, gauss_newton, loss_hessian
from .estimators.trace import estimate_trace
from .flatten import flat_outputs, flatten, unflatten
from .hessian import HessianOperator, christoffel, hessian_operator, riemannian_hessian
from .kernels.empirical import empirical_ntk, ntk_in_chart
from .kernels.finite import Erf, FiniteKernels, draw_network, finite_kernels, ntk_chart, ntk_metric, ntk_scales
from .kernels.infinite import InfiniteNetwork, nngp, ntk, standard_ntk
from .metrics.fisher import empirical_fisher_metric, fisher_metric, ggn_metric, kfac_metric
from .metrics.metric import Metric, diagonal_metric, euclidean_metric
from .metrics.optimizer import flat_metric, optimizer_metric
from .objects import BilinearForm, Covector, Density, Operator, Point, Vector
from .sharpness import Effort, Sharpness, SharpnessPair, estimate_sharpness, sharpness

__all__ = [
    "CARTESIAN",
    "Accuracy",
    "Atlas",
    "BilinearForm",
    "CartesianOptimizer",
    "Chart",
    "Covector",
    "Density",
    "DescentState",
    "Effort",
    "Erf",
    "Estimate",
    "FiniteKernels",
    "HessianOperator",
    "InfiniteNetwork",
    "InvariantDescent",
    "Invertible",
    "Jeffreys",
    "MatrixFree",
    "Metric",
    "Operator",
    "Point",
    "Sharpness",
    "SharpnessPair",
    "StepRule",
    "Vector",
    "adam_rule",
    "affine",
    "canonical_scale",
    "christoffel",
    "cube",
    "diagonal_metric",
    "draw_network",
    "elementwise",
    "empirical_fisher_metric",
    "empirical_ntk",
    "estimate_log_det",
    "estimate_sharpness",
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
    "ntk_scales",
    "optimizer_metric",
    "polar",
    "polar_atlas",
    "polar_of",
    "riemannian_hessian",
    "riemannian_log_density",
    "scaling",
    "sharpness",
    "sharpness_accuracy",
    "side_by_side",
    "softplus",
    "standard_ntk",
    "steepest",
    "top_eigenvalues",
    "transition",
    "unflatten",
]
