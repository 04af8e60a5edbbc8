r"""A network as a function of other coordinates of its weights, and its curvature there.

Products with the curvature in ψ are derivatives in ψ: the network is evaluated at :math:`\theta = \varphi^{-1}(\psi)`
and differentiated through the chart. For a metric M, diagonal and constant in θ, the operator
:math:`E = \hat M^{-1} \hat H` of ψ, with :math:`\hat M^{-1} = J M^{-1} J^\top`, has the eigenvalues of the symmetric
:math:`M^{-1/2} J^\top \hat H J M^{-1/2}`: products with J, nothing formed.
"""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from .._types import SampleAveraging, Weights
from ..geometry import Chart, MatrixFree, flatten, unflatten


class InChart(nn.Module):
    r"""The network of the coordinates ψ, its only weight `psi`: outputs :math:`f(x; \varphi^{-1}(\psi))`.

    Arguments:
        network: The network, averaged or plain.
        weights: Its weights that the chart is of.
        chart: The chart over their flat vector.
    """

    def __init__(self, network: nn.Module, weights: Weights, chart: Chart) -> None:
        super().__init__()
        self.network, self.weights, self.chart = network, dict(weights), chart
        self.psi = nn.Parameter(chart.forward(flatten(weights).detach()))
        if isinstance(network, SampleAveraging):
            self.num_samples = network.num_samples

    def forward(self, x: Tensor, index: Tensor | None = None, *, seed: int = 0) -> Float[Tensor, "N C"]:
        """Outputs at the present coordinates; index and seed are those of the noise of an averaged network."""
        arguments = {"index": index, "seed": seed} if isinstance(self.network, SampleAveraging) else {}
        weights = unflatten(self.chart.inverse(self.psi), self.weights)
        outputs: Tensor = functional_call(self.network, weights, (x,), arguments)
        return outputs


def aware(matrix: MatrixFree, charted: InChart, metric: Float[Tensor, " P"]) -> MatrixFree:
    r"""The symmetric matrix with the eigenvalues of :math:`E = \hat M^{-1} \hat H`.

    Arguments:
        matrix: Products with :math:`\hat H`, in the coordinates of the chart.
        charted: The network there.
        metric: The diagonal of M > 0, in Cartesian θ.
    """
    theta = charted.chart.inverse(charted.psi.detach())
    product = partial(_aware_product, matrix, charted.chart, theta, metric.rsqrt())
    return MatrixFree(product, matrix.size, matrix.dtype, matrix.device)


@torch.no_grad()
def _aware_product(
    matrix: MatrixFree,
    chart: Chart,
    theta: Float[Tensor, " P"],
    scale: Float[Tensor, " P"],
    vectors: Float[Tensor, "K P"],
) -> Float[Tensor, "K P"]:
    points = theta.repeat(len(vectors), 1)
    return scale * chart.pull(points, matrix(chart.push(points, scale * vectors)))
