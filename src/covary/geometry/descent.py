r"""Descent that takes the same path in every chart, for any preconditioner.

A rule turns the differential :math:`\nabla_\theta L`, a covector, into a direction d, a vector, both in Cartesian θ.
In ψ the differential is pulled back to θ by :math:`J^\top` and the direction pushed forward by J:

.. math:: \psi \leftarrow \psi - h\, J\, d, \qquad d = M(\theta)^{-1} J^\top \nabla_\psi L.

After a time T = n·h the paths of two charts agree to rounding if one is an affine map of the other, and else to first
order in h (paper 3, Section 3.2 and Remark 4).

`torch.nn.utils.parametrizations.weight_norm` writes a weight as :math:`W = g\,u`, :math:`u = v / \|v\|`, with one
parameter more per row than W has. That is not a chart, but every (g, v) with g ≠ 0 has one W, and from the gradients of
g and v

.. math:: \nabla_W L = u\, \nabla_g L + \frac{\|v\|}{g} \nabla_v L.

So any optimizer can take its step on W; `CartesianOptimizer` then sets g and v accordingly and keeps the norm of v.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import grad
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim import Optimizer

from ..errors import ChartError, DataError, StructureError
from .charts.chart import CARTESIAN, Chart
from .metrics.metric import Metric

Memory = tuple[Tensor, ...]  # the state of a rule, in Cartesian components
Loss = Callable[[Tensor], Tensor]  # Cartesian θ (P,) -> a number


class StepRule(NamedTuple):
    """A preconditioner."""

    initial: Callable[[Tensor], Memory]  # from θ to the memory before the first step
    # from θ, the differential and the memory to the direction and the next memory
    direction: Callable[[Tensor, Tensor, Memory], tuple[Tensor, Memory]]


def steepest(metric: Metric) -> StepRule:
    r"""The rule :math:`d = M(\theta)^{-1} \nabla L`: gradient descent; with the Fisher metric, natural gradient.

    Arguments:
        metric: The metric, in any chart.

    Example:
        >>> from covary.geometry import euclidean_metric
        >>> descent = InvariantDescent(steepest(euclidean_metric()), step_size=0.25)
        >>> descent.run(lambda theta: theta.square().sum(), torch.ones(1), num_steps=2)
        tensor([[1.0000],
                [0.5000],
                [0.2500]])
    """
    cartesian = metric.to(CARTESIAN)
    return StepRule(lambda theta: (), lambda theta, gradient, memory: (cartesian.solve(theta, gradient), memory))


def adam_rule(betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> StepRule:
    r"""The rule :math:`d = \hat m / (\sqrt{\hat v} + \epsilon)` of Adam, whose metric is the denominator.

    Arguments:
        betas: The decay factors of the moments m and v.
        epsilon: The number ε that is added to the root.

    Example:
        >>> descent = InvariantDescent(adam_rule(), step_size=0.1)
        >>> descent.run(lambda theta: theta.square().sum(), torch.ones(1), num_steps=1)
        tensor([[1.0000],
                [0.9000]])
    """
    return StepRule(_no_moments, partial(_adam, betas, epsilon))


class DescentState(NamedTuple):
    """The state of a descent: coordinates ψ, shape (P,), and the rule's memory."""

    coordinates: Tensor
    memory: Memory


@final
@dataclass(frozen=True)
class InvariantDescent:
    r"""Steps :math:`\psi \leftarrow \psi - h J d` in the coordinates of a chart.

    Arguments:
        rule: The preconditioner, a function of θ.
        step_size: The step h > 0.
        chart: The chart whose coordinates are updated.

    Example:
        >>> from covary.geometry import euclidean_metric, scaling
        >>> descent = InvariantDescent(steepest(euclidean_metric()), 0.25, scaling(10.0))
        >>> descent.run(lambda theta: theta.square().sum(), torch.ones(1), num_steps=1)  # ψ = 10 θ
        tensor([[10.],
                [ 5.]])
    """

    rule: StepRule
    step_size: float
    chart: Chart = CARTESIAN

    def __post_init__(self) -> None:
        if not self.step_size > 0:
            raise DataError(f"Expected `step_size` above 0, got {self.step_size}. Pass for example 0.01.")

    def init(self, theta: Float[Tensor, " P"]) -> DescentState:
        """The state at Cartesian θ, before the first step."""
        return DescentState(self.chart.forward(theta), self.rule.initial(theta))

    def step(self, loss: Loss, state: DescentState) -> DescentState:
        """The state after one step.

        Arguments:
            loss: The loss as a function of Cartesian θ.
            state: The state before the step.
        """
        theta = self.chart.inverse(state.coordinates)
        differential = grad(lambda psi: loss(self.chart.inverse(psi)))(state.coordinates)
        direction, memory = self.rule.direction(theta, self.chart.pull(theta, differential), state.memory)
        return DescentState(state.coordinates - self.step_size * self.chart.push(theta, direction), memory)

    def run(self, loss: Loss, theta: Float[Tensor, " P"], num_steps: int) -> Float[Tensor, "steps P"]:
        """The coordinates ψ along the path, with the start; `chart.inverse` of them is the path in θ.

        Arguments:
            loss: The loss as a function of Cartesian θ.
            theta: The start in Cartesian coordinates.
            num_steps: The number n of steps.
        """
        states = [self.init(theta)]
        for _ in range(num_steps):
            states.append(self.step(loss, states[-1]))
        return torch.stack([state.coordinates for state in states])


class _Normalized(NamedTuple):
    """One weight under weight normalization."""

    name: str
    lengths: nn.Parameter  # g
    directions: nn.Parameter  # v
    axis: int  # the axis that has one length per index; −1: one length for all
    weight: nn.Parameter  # W, which the inner optimizer updates


class CartesianOptimizer(Optimizer):
    """The steps of any optimizer on the weights themselves, for a network whose weights are normalized.

    The path of the weights is the one that the inner optimizer takes on the same network without normalization, its
    momentum, weight decay and adaptive step included. `param_groups` has the learning rates, as in any optimizer.

    Arguments:
        network: The network, some of whose weights are under `torch.nn.utils.parametrizations.weight_norm`.
        make: Makes the inner optimizer of a list of tensors, such as `partial(torch.optim.Adam, lr=1e-3)`.

    Example:
        >>> network = parametrizations.weight_norm(nn.Linear(1, 1, bias=False))
        >>> optimizer = CartesianOptimizer(network, partial(torch.optim.SGD, lr=1.0))
        >>> before = network.weight.detach()
        >>> network(torch.full((1, 1), 5.0)).sum().backward()
        >>> optimizer.step()
        >>> torch.allclose(network.weight, before - 5.0)
        True
    """

    def __init__(self, network: nn.Module, make: Callable[[list[nn.Parameter]], Optimizer]) -> None:
        self.network = network
        self.normalized = list(_normalized_weights(network))
        hidden = {id(p) for weight in self.normalized for p in (weight.lengths, weight.directions)}
        plain = [p for p in network.parameters() if p.requires_grad and id(p) not in hidden]
        self.inner = make([*(weight.weight for weight in self.normalized), *plain])
        super().__init__(self.inner.param_groups, self.inner.defaults)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step of the inner optimizer on the weights and return the closure's loss, if there is one.

        Arguments:
            closure: Computes the loss and its gradients first.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for weight in self.normalized:
            _read(weight)
        self.inner.step()
        for weight in self.normalized:
            _write(weight)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of every parameter of the network.

        Arguments:
            set_to_none: Whether to set them to None instead of 0.
        """
        self.network.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner optimizer."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the inner optimizer's state.

        Arguments:
            state_dict: The value of `state_dict()`.
        """
        self.inner.load_state_dict(state_dict)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state


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


def _normalized_weights(network: nn.Module) -> Iterator[_Normalized]:
    for name, found in network.named_modules():
        if not isinstance(found, ParametrizationList):
            continue
        name = name.replace("parametrizations.", "")
        if len(found) != 1 or not isinstance(found[0], parametrizations._WeightNorm):
            raise StructureError(
                f"Expected weight_norm as the only parametrization, got '{name}' under "
                f"{', '.join(type(each).__name__ for each in found)}. Remove the parametrization, or train this weight "
                "with another optimizer."
            )
        lengths, directions = found.get_parameter("original0"), found.get_parameter("original1")
        weight = nn.Parameter(found[0](lengths, directions).detach().clone())
        yield _Normalized(name, lengths, directions, found[0].dim, weight)


def _read(weight: _Normalized) -> None:
    """Set the weight W and its gradient from those of g and v."""
    if bool((weight.lengths == 0).any()):
        raise ChartError(
            f"A length g of '{weight.name}' is 0, at which the gradient of W is not known. Set it to another value, or "
            "remove the weight normalization."
        )
    norms = torch.norm_except_dim(weight.directions, 2, weight.axis)
    units = weight.directions / norms
    weight.weight.copy_(weight.lengths * units)
    if weight.lengths.grad is None or weight.directions.grad is None:
        weight.weight.grad = None
    else:
        weight.weight.grad = units * weight.lengths.grad + norms / weight.lengths * weight.directions.grad


def _write(weight: _Normalized) -> None:
    """Set the lengths g and directions v from the weight W; signs of g and norms of v do not change."""
    lengths = torch.norm_except_dim(weight.weight, 2, weight.axis)
    if bool((lengths == 0).any()):
        raise ChartError(
            f"A step of '{weight.name}' ends at a row of norm 0, which weight normalization cannot represent. Use a "
            "smaller step, or remove the weight normalization."
        )
    lengths = lengths * weight.lengths.sign()
    norms = torch.norm_except_dim(weight.directions, 2, weight.axis)
    weight.directions.copy_(norms * weight.weight / lengths)
    weight.lengths.copy_(lengths)
