r"""An optimizer that takes the Cartesian path under weight normalization.

`torch.nn.utils.parametrizations.weight_norm` writes a weight as :math:`W = g\,u`, :math:`u = v / \|v\|`, with one
parameter more per row than W has: no chart, but every (g, v) with g ≠ 0 has one W, and from the gradients of g and v

.. math:: \nabla_W L = u\, \nabla_g L + \frac{\|v\|}{g} \nabla_v L.

So any optimizer can take its step on W, and g and v are set to where W then is; the length of v, on which nothing
depends, stays. In the geometry of W a step is a straight line, followed exactly at any step size.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim import Optimizer

from ...errors import ChartError, StructureError


class _Normalized(NamedTuple):
    """One weight under weight normalization."""

    name: str
    lengths: nn.Parameter  # g
    directions: nn.Parameter  # v
    axis: int  # the one axis that keeps its lengths apart; −1: one length for all
    weight: nn.Parameter  # W, which the inner optimizer sees


class CartesianOptimizer(Optimizer):
    """The steps of any optimizer on the weights themselves, for a network whose weights are normalized.

    The path of the weights is the one that the inner optimizer takes on the same network without normalization, its
    momentum, weight decay and adaptive step included. Learning rates are those of `param_groups`, as ever.

    Arguments:
        network: The network, some of whose weights are under `torch.nn.utils.parametrizations.weight_norm`.
        make: Makes the inner optimizer of a list of tensors, such as `partial(torch.optim.Adam, lr=1e-3)`.
    """

    def __init__(self, network: nn.Module, make: Callable[[list[nn.Parameter]], Optimizer]) -> None:
        self.network = network
        self.normalized = list(_normalized_weights(network))
        hidden = {id(part) for weight in self.normalized for part in (weight.lengths, weight.directions)}
        plain = [p for p in network.parameters() if p.requires_grad and id(p) not in hidden]
        self.inner = make([*(weight.weight for weight in self.normalized), *plain])
        super().__init__(self.inner.param_groups, self.inner.defaults)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the inner optimizer on the weights; the closure's loss, if there is one.

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
        """Removal of the gradients of every parameter of the network.

        Arguments:
            set_to_none: Whether they become None instead of 0.
        """
        self.network.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner optimizer."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restoration of the inner optimizer's state.

        Arguments:
            state_dict: What `state_dict` gave.
        """
        self.inner.load_state_dict(state_dict)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state


def _normalized_weights(network: nn.Module) -> Iterator[_Normalized]:
    for name, parts in network.named_modules():
        if not isinstance(parts, ParametrizationList):
            continue
        name = name.replace("parametrizations.", "")
        if len(parts) != 1 or not isinstance(parts[0], parametrizations._WeightNorm):
            raise StructureError(
                f"'{name}' is under {', '.join(type(part).__name__ for part in parts)}; weight_norm alone can be "
                "undone here. Remove the parametrization, or train this weight with another optimizer."
            )
        lengths, directions = parts.get_parameter("original0"), parts.get_parameter("original1")
        weight = nn.Parameter(parts[0](lengths, directions).detach().clone())
        yield _Normalized(name, lengths, directions, parts[0].dim, weight)


def _read(weight: _Normalized) -> None:
    """The weight W and its gradient from those of g and v."""
    if bool((weight.lengths == 0).any()):
        raise ChartError(
            f"A length g of '{weight.name}' is 0, where the direction v has no gradient and that of W is not known. "
            "Move it off 0, or remove the weight normalization."
        )
    norms = torch.norm_except_dim(weight.directions, 2, weight.axis)
    units = weight.directions / norms
    weight.weight.copy_(weight.lengths * units)
    if weight.lengths.grad is None or weight.directions.grad is None:
        weight.weight.grad = None
    else:
        weight.weight.grad = units * weight.lengths.grad + norms / weight.lengths * weight.directions.grad


def _write(weight: _Normalized) -> None:
    """The lengths g and directions v of the weight W, with the signs of g and the norms of v that they had."""
    lengths = torch.norm_except_dim(weight.weight, 2, weight.axis)
    if bool((lengths == 0).any()):
        raise ChartError(
            f"A step of '{weight.name}' ends at a row of norm 0, which weight normalization cannot hold. Take a "
            "smaller step, or remove the weight normalization."
        )
    lengths = lengths * weight.lengths.sign()
    norms = torch.norm_except_dim(weight.directions, 2, weight.axis)
    weight.directions.copy_(norms * weight.weight / lengths)
    weight.lengths.copy_(lengths)
