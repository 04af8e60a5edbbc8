"""Charts that are learned: an invertible module as a change of coordinates."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from ..._types import TensorMap
from ...errors import ChartError
from .chart import Chart


@runtime_checkable
class Invertible(Protocol):
    """What a chart asks of a flow: a map on the last axis of (..., P), and its inverse."""

    def __call__(self, theta: Tensor) -> Tensor:
        """The coordinates ψ."""
        ...

    def inverse(self, psi: Tensor) -> Tensor:
        """The coordinates θ."""
        ...


def flow(module: object, *, log_det: TensorMap | None = None) -> Chart:
    """The chart of an invertible module; derivatives reach the module's parameters.

    `chart.verify(theta)` tells whether the inverse is one.

    Arguments:
        module: An `nn.Module` with `forward(theta)` and `inverse(psi)`.
        log_det: Its log-determinant where it has one in closed form; by default from the dense Jacobian.
    """
    if not isinstance(module, Invertible):
        raise ChartError(
            f"A flow needs a method 'inverse' beside its forward map; {type(module).__name__} has none. Add one, or "
            "wrap both in a module."
        )
    return Chart(f"flow {type(module).__name__}", module, module.inverse, log_det=log_det)
