r"""The tangent kernel of a network at its present weights, under a metric.

.. math:: K_{nc,md} = \sum_p M_p^{-1}
    \frac{\partial f_{nc}}{\partial\theta_p} \frac{\partial f_{md}}{\partial\theta_p}

is the product of two gradients, :math:`\langle M^{-1}\nabla f, M^{-1}\nabla f' \rangle_M`: it depends on the metric M
as it does on the weights, and it is the same in every chart if the metric is carried along.
"""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import jacrev

from ..._types import TensorMap
from ...curvature.capture import Captured, capture
from ...curvature.coverage import require_independence, select_weights
from ...curvature.kernel import tangent_kernel
from ...curvature.self_check import check_jacobian_factors
from ...errors import DataError
from ..metrics.optimizer import checked_metric
from ..objects import BilinearForm


def empirical_ntk(
    network: nn.Module,
    x: Tensor,
    metric: Mapping[str, Tensor] | None = None,
    *,
    weights: Iterable[str] | None = None,
    index: Int[Tensor, " N"] | None = None,
    seed: int = 0,
) -> Float[Tensor, "N C N C"]:
    r"""The empirical tangent kernel :math:`K_{nc,md} = (J M^{-1} J^\top)_{nc,md}`, positive semi-definite.

    Computed from the layers' inputs and output gradients, without a Jacobian where that is cheaper; differentiable
    unless computed under `torch.no_grad()`.

    Arguments:
        network: The network, averaged or plain, (N, ...) -> (N, C).
        x: The inputs, shape (N, ...).
        metric: The diagonal of the metric, for each weight one number or one per entry, all above 0; Euclidean, all
            ones, by default. The prior's precisions (`Prior.shifts`) make it the prior covariance of the linearized
            network; those of `ntk_metric`, the kernel in the NTK parametrization.
        weights: Names of the weights to differentiate by; all by default.
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        seed: The seed of that noise.

    Example:
        >>> empirical_ntk(nn.Linear(2, 1), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))[:, 0, :, 0].detach()
        tensor([[2., 1.],
                [1., 5.]])
    """
    if len(x) == 0:
        raise DataError("Expected at least one input, got none.")
    selected = select_weights(network, weights)
    require_independence(network)
    check_jacobian_factors(network, x, selected)
    euclidean = {name: weight.new_ones(()) for name, weight in selected.items()}
    shifts = euclidean if metric is None else checked_metric(metric, selected)
    return captured_ntk(capture(network, x, selected, index=index, seed=seed), shifts)


def captured_ntk(captured: Captured, shifts: Mapping[str, Tensor]) -> Float[Tensor, "N C N C"]:
    """The empirical tangent kernel of a captured pass, which it consumes unless there is a graph.

    Arguments:
        shifts: The diagonal of the metric for each weight, 0-d or (numel,).
    """
    outputs = captured.outputs
    identity = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
    kernel = tangent_kernel(captured, [column.expand_as(outputs) for column in identity], shifts)
    columns_first = outputs.shape[::-1]  # the engine's rows are k·N + n
    return kernel.reshape(*columns_first, *columns_first).permute(1, 0, 3, 2)


def ntk_in_chart(function: TensorMap, metric: BilinearForm) -> Float[Tensor, "N C N C"]:
    r"""The tangent kernel :math:`J_\psi M_\psi^{-1} J_\psi^\top` in a metric's chart, at its point; for small P.

    All of it is computed in ψ: the derivative of :math:`f \circ \varphi^{-1}` and the metric's components. With a
    metric transformed by `.to(chart)` it is the kernel of θ; with a metric that is Euclidean in each chart it is a
    different kernel in each.

    Arguments:
        function: From Cartesian θ, (P,), to the outputs, (N, C), such as `flat_outputs(network, x)`.
        metric: The metric, at the weights' point.

    Example:
        >>> from covary.geometry import Point, euclidean_metric, scaling
        >>> point = Point(torch.tensor([1.0, 2.0])).to(scaling(3.0))
        >>> kernel = ntk_in_chart(lambda theta: theta.prod().view(1, 1), euclidean_metric().at(point))
        >>> kernel.round(decimals=4)
        tensor([[[[5.]]]])
    """
    point = metric.point
    jacobian = jacrev(lambda psi: function(point.chart.maps.inverse(psi)))(point.coordinates)
    rows = jacobian.flatten(0, 1)
    kernel: Tensor = rows @ torch.linalg.solve(metric.components, rows.mT)
    return kernel.reshape(2 * jacobian.shape[:2])
