r"""Tangent kernels of a network at a finite width, under a metric: in the standard and the NTK parametrization.

.. math:: K_{nc,md} = \sum_p M_p^{-1}
    \frac{\partial f_{nc}}{\partial\theta_p} \frac{\partial f_{md}}{\partial\theta_p}

is the product of two gradients, :math:`\langle M^{-1}\nabla f, M^{-1}\nabla f' \rangle_M`: it depends on the metric M
as it does on the weights, and it is the same in every chart if the metric is carried along.

The standard weights are :math:`\theta = s\psi` with standard normal ψ and :math:`s = \sigma_w / \sqrt{\text{fan-in}}`
(:math:`\sigma_b` for a bias), so :math:`\theta \mapsto \psi` is a chart. The two differ in which metric is Euclidean.
In ψ the metric :math:`M_\theta = I` is :math:`s^2`, and its kernel is that of θ, which grows with the width. The NTK
parametrization has :math:`M_\psi = I` instead, which in θ is :math:`s^{-2}`, the precision of the prior, and its kernel
converges. (Paper 3, App. E.1; the formula printed there divides the first layer by its own width instead of its
fan-in, and that kernel vanishes as the width grows.)
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import jacrev
from torch.nn.utils import skip_init

from ..._types import TensorMap
from ...curvature.capture import Captured, capture
from ...curvature.coverage import require_independence, select_weights
from ...curvature.kernel import tangent_kernel
from ...curvature.self_check import check_jacobian_factors
from ...errors import DataError, UnsupportedLayerError
from ..charts.chart import Chart
from ..charts.network import network_chart
from ..charts.standard import scaling
from ..metrics.metric import checked_metric
from ..objects import BilinearForm
from .infinite import InfiniteNetwork


class Erf(nn.Module):
    """The error function as an activation."""

    def forward(self, x: Tensor) -> Tensor:
        """The error function of each entry."""
        return torch.erf(x)


_ACTIVATIONS = {"relu": nn.ReLU, "erf": Erf}


class FiniteKernels(NamedTuple):
    r"""Kernels of one drawn network with one output, (N, N) each."""

    # the covariance of the output over the last layer's prior given the hidden units; tends to `nngp`
    nngp: Float[Tensor, "N N"]
    ntk: Float[Tensor, "N N"]  # the tangent kernel with the Euclidean metric of the NTK parametrization; tends to `ntk`
    # the one with the Euclidean metric of the standard parametrization; grows like `standard_ntk`
    standard: Float[Tensor, "N N"]


def ntk_scales(
    network: nn.Module, weight_variance: float | int | Tensor, bias_variance: float | int | Tensor
) -> dict[str, Tensor]:
    r"""The scale s of each parameter, 0-d: :math:`\sigma_w / \sqrt{\text{fan-in}}`, or :math:`\sigma_b` of a bias.

    Arguments:
        network: A network of linear or convolutional layers; others may not have parameters.
        weight_variance: :math:`\sigma_w^2 > 0`.
        bias_variance: :math:`\sigma_b^2`, above 0 where there are biases.
    """
    scales: dict[str, Tensor] = {}
    for name, module in network.named_modules():
        for local, parameter in module.named_parameters(name, recurse=False):
            if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
                raise UnsupportedLayerError(
                    f"Expected parameters of Linear and Conv layers, got '{local}' of {type(module).__name__}, "
                    "which has no fan-in."
                )
            is_weight = parameter is module.weight
            chosen = weight_variance if is_weight else bias_variance
            variance = torch.as_tensor(chosen, dtype=parameter.dtype, device=parameter.device)
            if not bool(variance > 0):
                raise DataError(
                    f"Expected a prior variance above 0 for '{local}', got {variance.item():g}. Pass a positive "
                    "variance, or make the layer with bias=False."
                )
            scales[local] = (variance / (parameter[0].numel() if is_weight else 1)).sqrt()
    return scales


def ntk_chart(network: nn.Module, weight_variance: float | int | Tensor, bias_variance: float | int | Tensor) -> Chart:
    r"""The chart :math:`\psi = \theta / s` from standard weights to the NTK parametrization, over their flat vector.

    Arguments as in `ntk_scales`.

    Example:
        >>> ntk_chart(nn.Linear(4, 1, bias=False), 1.0, 0.0).forward(torch.ones(4))  # s = 1/√4
        tensor([2., 2., 2., 2.])
    """
    scales = ntk_scales(network, weight_variance, bias_variance)
    charts = {name: scaling(1 / scale) for name, scale in scales.items()}
    return network_chart(dict(network.named_parameters()), charts)


def ntk_metric(
    network: nn.Module, weight_variance: float | int | Tensor, bias_variance: float | int | Tensor
) -> dict[str, Tensor]:
    r"""The Euclidean metric of the NTK parametrization in standard weights, :math:`s^{-2}` for each parameter.

    Arguments as in `ntk_scales`; the metric of `empirical_ntk`.

    Example:
        >>> ntk_metric(nn.Linear(4, 1, bias=False), 1.0, 0.0)
        {'weight': tensor(4.)}
    """
    return {name: scale**-2 for name, scale in ntk_scales(network, weight_variance, bias_variance).items()}


def draw_network(
    network: InfiniteNetwork, sizes: tuple[int, int, int], generator: torch.Generator, dtype: torch.dtype | None = None
) -> nn.Sequential:
    """A network of finite width in standard parametrization, drawn from the prior.

    Arguments:
        network: The architecture and the prior.
        sizes: The numbers of inputs, of units in each hidden layer, and of outputs.
        generator: The source of the weights; they are on its device.
        dtype: The dtype of the weights; torch's default if not given.

    Example:
        >>> draw_network(InfiniteNetwork(1), (3, 8, 2), torch.Generator().manual_seed(0))[1]
        Linear(in_features=3, out_features=8, bias=False)
    """
    num_inputs, width, num_outputs = sizes
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise([num_inputs, *[width] * network.num_hidden, num_outputs]):
        # without torch's own draw, which would move its global seed
        linear = skip_init(nn.Linear, fan_in, fan_out, bias=network.has_bias, device=generator.device, dtype=dtype)
        layers += [linear, _ACTIVATIONS[network.activation]()]
    drawn = nn.Sequential(*layers[:-1])
    parameters = dict(drawn.named_parameters())
    with torch.no_grad():
        for name, scale in ntk_scales(drawn, network.weight_variance, network.bias_variance).items():
            parameters[name].normal_(generator=generator).mul_(scale)
    return drawn


@torch.no_grad()
def finite_kernels(
    network: InfiniteNetwork, x: Float[Tensor, "N ..."], width: int, generator: torch.Generator
) -> FiniteKernels:
    """The kernels of one network drawn from the prior, with this width of all hidden layers.

    Arguments:
        network: The architecture and the prior.
        x: The inputs.
        width: The number of units h in each hidden layer.
        generator: The source of the weights.

    Example:
        >>> x = torch.eye(2, dtype=torch.float64)
        >>> kernels = finite_kernels(InfiniteNetwork(1), x, 4096, torch.Generator().manual_seed(0))
        >>> bool((kernels.ntk - torch.tensor([[2.0, 0.3183], [0.3183, 2.0]])).abs().max() < 0.1)
        True
    """
    drawn = draw_network(network, (x[0].numel(), width, 1), generator, x.dtype)
    metric = ntk_metric(drawn, network.weight_variance, network.bias_variance)
    weights = dict(drawn.named_parameters())
    final = f"{len(drawn) - 1}."
    last = {name: weight for name, weight in weights.items() if name.startswith(final)}
    choices = [(last, metric), (weights, metric), (weights, {name: x.new_ones(()) for name in weights})]
    return FiniteKernels(*(captured_ntk(capture(drawn, x, chosen), m)[:, 0, :, 0] for chosen, m in choices))


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
