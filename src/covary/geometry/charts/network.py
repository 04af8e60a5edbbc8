r"""A network as a function of one flat vector: its weights in the order of their names, or coordinates of a chart.

Products with the curvature in ψ are derivatives in ψ: the network is evaluated at :math:`\theta = \varphi^{-1}(\psi)`
and differentiated through the chart.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from ..._types import SampleAveraging, TensorMap, Weights
from ...errors import ChartError, ShapeError
from ...priors import weights_of
from ..objects import Point
from .chart import CARTESIAN, Chart, Check, check_size

ChartChoice = Chart | Callable[[Tensor], Chart]  # a chart of any number of coordinates, or one made for a parameter


def flatten(weights: Weights) -> Float[Tensor, " P"]:
    """The flat vector θ of named weights, in their order.

    Example:
        >>> flatten({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
        tensor([1., 1., 0.])
    """
    return torch.cat([weight.flatten() for weight in weights.values()])


def unflatten(theta: Float[Tensor, " P"], weights: Weights) -> dict[str, Tensor]:
    """The named weights of a flat vector θ, in the names, order and shapes of `weights`.

    Example:
        >>> unflatten(torch.arange(3.0), {"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
        {'weight': tensor([[0., 1.]]), 'bias': tensor([2.])}
    """
    sizes = [weight.numel() for weight in weights.values()]
    if len(theta) != sum(sizes):
        raise ShapeError(
            f"Expected a vector of {sum(sizes)} entries (of {len(sizes)} weights), got {len(theta)}. Flatten the same "
            "weights."
        )
    return {n: chunk.view_as(w) for (n, w), chunk in zip(weights.items(), theta.split(sizes), strict=True)}


def flat_outputs(
    network: nn.Module, x: Tensor, *, index: Tensor | None = None, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """The function from the flat vector θ of all weights, (P,), to the outputs on these inputs, (N, C).

    Arguments:
        network: The network, averaged or plain; all else it holds is constant.
        x: The inputs.
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        seed: The seed of that noise.

    Example:
        >>> outputs = flat_outputs(nn.Linear(2, 1), torch.eye(2))
        >>> outputs(torch.tensor([1.0, 2.0, 10.0]))
        tensor([[11.],
                [12.]])
    """
    weights, arguments = weights_of(network), _noise_arguments(network, index, seed)
    return lambda theta: functional_call(network, unflatten(theta, weights), (x,), arguments)


class InChart(nn.Module):
    r"""The network of the coordinates ψ, its only weight `psi`: outputs :math:`f(x; \varphi^{-1}(\psi))`.

    Arguments:
        network: The network, averaged or plain.
        weights: Its weights that the chart is of.
        chart: The chart over their flat vector.

    Example:
        >>> from covary.geometry import scaling
        >>> network = nn.Linear(2, 1)
        >>> charted = InChart(network, dict(network.named_parameters()), scaling(2.0))
        >>> torch.equal(charted(torch.ones(1, 2)), network(torch.ones(1, 2)))
        True
    """

    hyperparameters = ("network",)  # `psi` is its only weight

    def __init__(self, network: nn.Module, weights: Weights, chart: Chart) -> None:
        super().__init__()
        self.network, self.weights, self.chart = network, dict(weights), chart
        self.psi = nn.Parameter(chart.forward(flatten(weights).detach()))
        if isinstance(network, SampleAveraging):
            self.num_samples = network.num_samples

    def forward(self, x: Tensor, index: Tensor | None = None, *, seed: int = 0) -> Float[Tensor, "N C"]:
        """Outputs at the present coordinates; index and seed are those of the noise of an averaged network."""
        weights = unflatten(self.chart.inverse(self.psi), self.weights)
        return functional_call(self.network, weights, (x,), _noise_arguments(self.network, index, seed))

    @property
    def point(self) -> Point:
        """The present point, in the coordinates of the chart."""
        return Point(self.psi.detach(), self.chart)


def network_chart(weights: Weights, charts: Mapping[str, ChartChoice]) -> Chart:
    """The chart over the flat vector of all weights, in their order; a weight that no pattern names stays Cartesian.

    Arguments:
        weights: Name -> weight, such as `dict(network.named_parameters())`.
        charts: fnmatch pattern over names -> chart, or a function from the weight to one, such as `polar_of`; the
            first match wins.

    Example:
        >>> from covary.geometry import polar_of
        >>> weights = {"weight": torch.tensor([[3.0, 4.0]]), "bias": torch.zeros(1)}
        >>> network_chart(weights, {"*weight": polar_of}).forward(flatten(weights))
        tensor([5.0000, 0.3333, 0.0000])
    """
    for pattern in charts:
        if not any(fnmatchcase(name, pattern) for name in weights):
            raise ChartError(
                f"Pattern '{pattern}' of the charts matches no parameter. Expected one that matches some of "
                f"{', '.join(weights)}."
            )
    chosen = [_chosen(name, weight, charts) for name, weight in weights.items()]
    return side_by_side(chosen, [weight.numel() for weight in weights.values()])


def side_by_side(charts: Sequence[Chart], sizes: Sequence[int]) -> Chart:
    r"""The chart that gives each of several charts its own consecutive coordinates; J is block-diagonal.

    Arguments:
        charts: The charts, in order.
        sizes: The number of coordinates of each.

    Example:
        >>> from covary.geometry import logarithm
        >>> side_by_side([CARTESIAN, logarithm()], [1, 1]).forward(torch.ones(2))
        tensor([1., 0.])
    """
    if len(charts) != len(sizes) or not charts:
        raise ChartError(f"Expected one size per chart and at least one chart, got {len(charts)} charts and {sizes}.")
    name = f"[{', '.join(chart.name for chart in charts)}]"
    forwards, inverses, log_dets, domains, images = zip(*(chart.maps for chart in charts), strict=True)
    return Chart(
        name,
        lambda theta: torch.cat(_apply(forwards, sizes, theta), dim=-1),
        lambda psi: torch.cat(_apply(inverses, sizes, psi), dim=-1),
        log_det=lambda theta: torch.stack(_apply(log_dets, sizes, theta)).sum(0),
        domain=lambda theta: _check(domains, sizes, theta, name),
        image=lambda psi: _check(images, sizes, psi, name),
    )


def _noise_arguments(network: nn.Module, index: Tensor | None, seed: int) -> dict[str, Tensor | int | None]:
    return {"index": index, "seed": seed} if isinstance(network, SampleAveraging) else {}


def _chosen(name: str, weight: Tensor, charts: Mapping[str, ChartChoice]) -> Chart:
    choice = next((chart for pattern, chart in charts.items() if fnmatchcase(name, pattern)), CARTESIAN)
    return choice if isinstance(choice, Chart) else choice(weight)


def _apply(maps: Sequence[TensorMap], sizes: Sequence[int], coordinates: Tensor) -> list[Tensor]:
    return [m(chunk) for m, chunk in zip(maps, coordinates.split(list(sizes), dim=-1), strict=True)]


def _check(checks: Sequence[Check], sizes: Sequence[int], coordinates: Tensor, name: str) -> None:
    check_size(coordinates, sum(sizes), name)
    for check, chunk in zip(checks, coordinates.split(list(sizes), dim=-1), strict=True):
        check(chunk)
