r"""Jacobian products of weights without a rule, by autograd: the weight is expanded, one row for each datum.

The outputs :math:`\hat f_n` of datum n are computed with row n, so that the gradient of
:math:`\sum_n v_n^\top \hat f_n` at the rows is :math:`\hat J_n^\top v_n` for every datum, in one backward pass,
whatever the network does with the weight. The pass runs all data at once by `torch.vmap`; where an operation has no
batching rule (recurrent layers) or control flow depends on the data, it runs one datum after the other.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# From weights that replace the network's by name, inputs (N, ...) and identities (N,) to outputs (N, C).
Forward = Callable[[Mapping[str, Tensor], Tensor, Tensor], Tensor]


class PerDatumPass(NamedTuple):
    """A forward pass in which every datum has its own row of some weights."""

    outputs: Float[Tensor, "N C"]  # the network's outputs, shape (N, C)
    expanded: dict[str, Tensor]  # each of these weights with a row for every datum, (N, *shape)

    def pull(self, probe: Float[Tensor, "N C"], *, keep: bool, differentiable: bool) -> list[Tensor]:
        r"""The products :math:`\hat J_n^\top v_n` of each weight, shape (N, 1, *shape); arguments as for a capture."""
        found = torch.autograd.grad(
            self.outputs,
            list(self.expanded.values()),
            probe,
            retain_graph=keep or differentiable,
            create_graph=differentiable,
            allow_unused=True,
        )
        pairs = zip(found, self.expanded.values(), strict=True)
        return [(torch.zeros_like(rows) if product is None else product).unsqueeze(1) for product, rows in pairs]


def per_datum_pass(
    forward: Forward, weights: Mapping[str, nn.Parameter], x: Tensor, index: Int[Tensor, " N"]
) -> PerDatumPass:
    """The forward pass of a batch with these weights expanded, one row for each datum.

    Arguments:
        x: The inputs, shape (N, ...).
    """
    expanded = {name: weight.expand(len(x), *weight.shape).clone() for name, weight in weights.items()}

    def one(own: dict[str, Tensor], datum: Tensor, identity: Tensor) -> Tensor:
        return forward(own, datum.unsqueeze(0), identity.unsqueeze(0)).squeeze(0)

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")  # still faster than a loop
            outputs = torch.vmap(one)(expanded, x, index)
    except Exception:  # whatever a network may raise for batched tensors; what it raises for plain ones is raised below
        rows = [{name: value[n] for name, value in expanded.items()} for n in range(len(x))]
        outputs = torch.stack([one(own, *datum) for own, *datum in zip(rows, x, index, strict=True)])
    return PerDatumPass(outputs, expanded)
