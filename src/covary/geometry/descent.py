r"""Descent that takes the same path in every chart, for any preconditioner.

A rule turns the differential :math:`\nabla_\theta L`, a covector, into a direction d, a vector, both in Cartesian θ.
In ψ the differential is pulled back to θ by :math:`J^\top` and the direction pushed forward by J:

.. math:: \psi \leftarrow \psi - h\, J\, d, \qquad d = M(\theta)^{-1} J^\top \nabla_\psi L.

After a time T = n·h the paths of two charts agree to rounding if one is an affine map of the other, and else to first
order in h (paper 3, Section 3.2 and Remark 4).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad

from ..errors import DataError
from .charts.chart import CARTESIAN, Chart
from .metrics.metric import Metric

Memory = tuple[Tensor, ...]  # what a rule carries from step to step, in Cartesian components
Loss = Callable[[Tensor], Tensor]  # Cartesian θ (P,) -> a number


class StepRule(NamedTuple):
    """A preconditioner.

    Arguments:
        initial: From θ to the memory before the first step.
        direction: From θ, the differential and the memory to the direction and the next memory.
    """

    initial: Callable[[Tensor], Memory]
    direction: Callable[[Tensor, Tensor, Memory], tuple[Tensor, Memory]]


def steepest(metric: Metric) -> StepRule:
    r"""The rule :math:`d = M(\theta)^{-1} \nabla L`: gradient descent; with the Fisher metric, natural gradient.

    Arguments:
        metric: The metric, in any chart.
    """
    cartesian = metric.to(CARTESIAN)
    return StepRule(lambda theta: (), lambda theta, gradient, memory: (cartesian.solve(theta, gradient), memory))


def adam_rule(betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> StepRule:
    r"""The rule :math:`d = \hat m / (\sqrt{\hat v} + \epsilon)` of Adam, whose metric is the denominator.

    Arguments:
        betas: How much of the moments m and v is kept in a step.
        epsilon: What is added to the root.
    """
    return StepRule(_no_moments, partial(_adam, betas, epsilon))


class DescentState(NamedTuple):
    """Where a descent is: coordinates ψ, shape (P,), and the rule's memory."""

    coordinates: Tensor
    memory: Memory


@final
@dataclass(frozen=True)
class InvariantDescent:
    r"""Steps :math:`\psi \leftarrow \psi - h J d` in the coordinates of a chart.

    Arguments:
        rule: The preconditioner, which knows θ alone.
        step_size: The step h > 0.
        chart: The chart whose coordinates are updated.
    """

    rule: StepRule
    step_size: float
    chart: Chart = CARTESIAN

    def __post_init__(self) -> None:
        if not self.step_size > 0:
            raise DataError(f"step_size must be above 0; {self.step_size} came. Pass for example 0.01.")

    def init(self, theta: Float[Tensor, " P"]) -> DescentState:
        """The state at Cartesian θ, before the first step."""
        return DescentState(self.chart.forward(theta), self.rule.initial(theta))

    def step(self, loss: Loss, state: DescentState) -> DescentState:
        """The state after one step.

        Arguments:
            loss: The loss as a function of Cartesian θ.
            state: Where the step begins.
        """
        theta = self.chart.inverse(state.coordinates)
        differential = grad(lambda psi: loss(self.chart.inverse(psi)))(state.coordinates)
        direction, memory = self.rule.direction(theta, self.chart.pull(theta, differential), state.memory)
        return DescentState(state.coordinates - self.step_size * self.chart.push(theta, direction), memory)

    def run(self, loss: Loss, theta: Float[Tensor, " P"], num_steps: int) -> Float[Tensor, "steps P"]:
        """The coordinates ψ on the way, the start included; `chart.inverse` of them is the path in θ.

        Arguments:
            loss: The loss as a function of Cartesian θ.
            theta: The start in Cartesian coordinates.
            num_steps: The number n of steps.
        """
        states = [self.init(theta)]
        for _ in range(num_steps):
            states.append(self.step(loss, states[-1]))
        return torch.stack([state.coordinates for state in states])


def _no_moments(theta: Tensor) -> Memory:
    return torch.zeros_like(theta), torch.zeros_like(theta), theta.new_zeros(())


def _adam(
    betas: tuple[float, float], epsilon: float, theta: Tensor, gradient: Tensor, memory: Memory
) -> tuple[Tensor, Memory]:
    del theta
    first, second, count = memory
    first = betas[0] * first + (1 - betas[0]) * gradient
    second = betas[1] * second + (1 - betas[1]) * gradient.square()
    count = count + 1
    mean, square = first / (1 - betas[0] ** count), second / (1 - betas[1] ** count)
    return mean / (square.sqrt() + epsilon), (first, second, count)
