"""Charts of a whole network: one chart per named parameter, over the flat vector of all."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from ..._types import TensorMap, Weights
from ...errors import ChartError
from .chart import CARTESIAN, Chart, Check, check_size

ChartChoice = Chart | Callable[[Tensor], Chart]  # a chart of any number of coordinates, or one made for a parameter


def network_chart(weights: Weights, charts: Mapping[str, ChartChoice]) -> Chart:
    """The chart over the flat vector of all weights, in their order; a weight that no pattern names stays Cartesian.

    Arguments:
        weights: Name -> weight, such as `dict(network.named_parameters())`.
        charts: fnmatch pattern over names -> chart, or a function from the weight to one, such as `polar_of`; the
            first match wins.
    """
    for pattern in charts:
        if not any(fnmatchcase(name, pattern) for name in weights):
            raise ChartError(
                f"Pattern '{pattern}' of the charts matches no parameter; they are {', '.join(weights)}. Correct it "
                "or leave it out."
            )
    chosen = [_chosen(name, weight, charts) for name, weight in weights.items()]
    return side_by_side(chosen, [weight.numel() for weight in weights.values()])


def side_by_side(charts: Sequence[Chart], sizes: Sequence[int]) -> Chart:
    r"""The chart that gives each of several charts its own consecutive coordinates; J is block-diagonal.

    Arguments:
        charts: The charts, in order.
        sizes: The number of coordinates of each.
    """
    if len(charts) != len(sizes) or not charts:
        raise ChartError(f"A size per chart was expected, at least one; {len(charts)} charts and {sizes} came.")
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


def _chosen(name: str, weight: Tensor, charts: Mapping[str, ChartChoice]) -> Chart:
    choice = next((chart for pattern, chart in charts.items() if fnmatchcase(name, pattern)), CARTESIAN)
    return choice if isinstance(choice, Chart) else choice(weight)


def _apply(maps: Sequence[TensorMap], sizes: Sequence[int], coordinates: Tensor) -> list[Tensor]:
    return [m(part) for m, part in zip(maps, coordinates.split(list(sizes), dim=-1), strict=True)]


def _check(checks: Sequence[Check], sizes: Sequence[int], coordinates: Tensor, name: str) -> None:
    check_size(coordinates, sum(sizes), name)
    for check, part in zip(checks, coordinates.split(list(sizes), dim=-1), strict=True):
        check(part)
