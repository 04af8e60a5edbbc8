r"""Weights under `torch.nn.utils.parametrizations.weight_norm`: the plain layer's products, and the chain rule.

The weight is :math:`W = g\, v / \|v\|`, with a norm for each index of one axis. The products U of the plain layer with
respect to W give :math:`\langle U, v \rangle / \|v\|` for g and
:math:`g\,(U - \langle U, v \rangle\, v / \|v\|^2) / \|v\|` for v.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from ..jacobian_factors import DirectVJP, JacobianFactors
from .user import RuleFunction


def normalized_weights(module: nn.Module) -> dict[str, ParametrizationList]:
    """The parametrizations of the tensors of a module that are under weight normalization and nothing else."""
    if not is_parametrized(module) or isinstance(module, nn.MultiheadAttention):
        return {}
    named = module.parametrizations.items()  # type: ignore[operator, union-attr]
    return {name: each for name, each in named if len(each) == 1 and isinstance(each[0], _WeightNorm)}


def parameter_names(tensor: str) -> tuple[str, str]:
    """The names of g and v in the module whose tensor is normalized."""
    return f"parametrizations.{tensor}.original0", f"parametrizations.{tensor}.original1"


@dataclass(frozen=True)
class WeightNormalized:
    """The rule of a layer with normalized weights, from that of the plain layer."""

    plain: RuleFunction  # the rule's function of the plain layer

    def __call__(self, module: nn.Module, inputs: Float[Tensor, "N S ..."]) -> dict[str, JacobianFactors]:
        """The factors of every parameter of the layer; those of g and v are products."""
        found = dict(self.plain(module, inputs))
        for tensor, each in normalized_weights(module).items():
            if (factors := found.pop(tensor, None)) is None:
                continue
            for name, chain in zip(parameter_names(tensor), (_of_length, _of_direction), strict=True):
                found[name] = DirectVJP(_chained(factors, each, chain))
        return found


def _chained(
    factors: JacobianFactors, parametrization: ParametrizationList, chain: Callable[..., Tensor]
) -> Callable[[Tensor], Tensor]:
    g, v = cast(Tensor, parametrization.original0), cast(Tensor, parametrization.original1)
    norm = torch.norm_except_dim(v, 2, cast(int, parametrization[0].dim))

    def products(gradient: Float[Tensor, "N S ..."]) -> Float[Tensor, "N P"]:
        rows = factors.vjp(gradient).unflatten(1, v.shape)
        shared = [axis + 1 for axis in range(v.ndim) if norm.ndim == 0 or norm.shape[axis] == 1]
        dot = (rows * v).sum(shared, keepdim=True)
        return chain(rows, dot, g, v, norm).flatten(1)

    return products


def _of_length(rows: Tensor, dot: Tensor, g: Tensor, v: Tensor, norm: Tensor) -> Tensor:
    return dot / norm


def _of_direction(rows: Tensor, dot: Tensor, g: Tensor, v: Tensor, norm: Tensor) -> Tensor:
    return g / norm * (rows - dot * (v / norm**2))
