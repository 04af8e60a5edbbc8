"""The table of curvature rules by type of module, which users extend with `register_rule`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from ...layers import Bias, Dense, FrozenBatchNorm, Scale, SparseConv
from ...layers.factored import FactoredRead, FactoredWrite
from ...layers.group import GroupStage
from ...layers.sparse import SparseRead, SparseWrite
from ..jacobian_factors import JacobianFactors
from .attention import projection
from .conv import conv, conv_transpose
from .group import group_stage
from .linear import embedding, linear
from .norm import batch_norm, bias, group_norm, layer_norm, rms_norm, scale
from .sparse import dense, factored_read, factored_write, sparse_conv, sparse_read, sparse_write
from .user import Form, RuleFunction, UserRule, user_rule
from .weight_norm import WeightNormalized, normalized_weights, parameter_names


@dataclass(frozen=True)
class Rule:
    """The curvature rule of one type of module.

    Arguments:
        function: From the module and its input (N, S, ...) to the factors of each parameter.
        forms: The form of each parameter that the rule covers.
    """

    function: RuleFunction
    forms: Mapping[str, Form]


_WEIGHT_BIAS: Mapping[str, Form] = {"weight": "kron", "bias": "dense"}
_TRANSPOSED: Mapping[str, Form] = {"weight": "kron_rows", "bias": "dense"}
_NORM: Mapping[str, Form] = {"weight": "exact", "bias": "exact"}
_SPARSE: Mapping[str, Form] = {"values": "kron", "bias": "dense", "offsets": "exact", "omega": "exact"}
_ATTENTION: Mapping[str, Form] = {
    "in_proj_weight": "kron",
    "in_proj_bias": "dense",
    "q_proj_weight": "kron",
    "k_proj_weight": "kron",
    "v_proj_weight": "kron",
}
_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: Rule(linear, _WEIGHT_BIAS),
    nn.Conv1d: Rule(conv, _WEIGHT_BIAS),
    nn.Conv2d: Rule(conv, _WEIGHT_BIAS),
    nn.Conv3d: Rule(conv, _WEIGHT_BIAS),
    nn.ConvTranspose1d: Rule(conv_transpose, _TRANSPOSED),
    nn.ConvTranspose2d: Rule(conv_transpose, _TRANSPOSED),
    nn.ConvTranspose3d: Rule(conv_transpose, _TRANSPOSED),
    nn.Embedding: Rule(embedding, {"weight": "kron_rows"}),
    nn.LayerNorm: Rule(layer_norm, _NORM),
    nn.RMSNorm: Rule(rms_norm, {"weight": "exact"}),
    nn.GroupNorm: Rule(group_norm, _NORM),
    nn.BatchNorm1d: Rule(batch_norm, _NORM),
    nn.BatchNorm2d: Rule(batch_norm, _NORM),
    nn.BatchNorm3d: Rule(batch_norm, _NORM),
    FrozenBatchNorm: Rule(batch_norm, _NORM),
    nn.MultiheadAttention: Rule(partial(projection, 0), _ATTENTION),  # capture reports its three projections
    Scale: Rule(scale, {"weight": "exact"}),
    Bias: Rule(bias, {"bias": "exact"}),
    Dense: Rule(dense, _WEIGHT_BIAS),
    FactoredRead: Rule(factored_read, _WEIGHT_BIAS),
    FactoredWrite: Rule(factored_write, _WEIGHT_BIAS),
    SparseConv: Rule(sparse_conv, _SPARSE),
    SparseRead: Rule(sparse_read, _SPARSE),
    SparseWrite: Rule(sparse_write, _SPARSE),
    GroupStage: Rule(group_stage, _WEIGHT_BIAS),
}


def register_rule(
    module_type: type[nn.Module],
    function: Callable[[Any, Tensor], Mapping[str, JacobianFactors]],
    forms: Mapping[str, Form],
) -> None:
    """Add the curvature rule of a type of layer to the table of rules.

    What the function returns is checked at every call, and before every use the factors are compared with autograd's
    gradient on a few data, each by itself and all together, so that a wrong rule raises `UnsupportedLayerError`.

    Arguments:
        module_type: The layer's class.
        function: From the module and its input with the sample axis, shape (N, S, ...), to the factors
            (`OuterFactors`, `LookupFactors`, `DirectVJP`) of each parameter, by the parameter's name in the module.
        forms: The form of each parameter's block: "kron" (or "kron_rows" if the weight's rows are inputs), "dense",
            or "exact" (dense if it is small, else diagonal).

    Example:
        >>> from torch import nn
        >>> from covary.curvature import OuterFactors, coverage, register_rule
        >>> class Head(nn.Linear):
        ...     def forward(self, x):
        ...         return super().forward(x)
        >>> def tokens(features):  # (N, S, D) -> (N, S, R, Q, D)
        ...     return features[:, :, None, None]
        >>> register_rule(Head, lambda module, x: {"weight": OuterFactors(x, tokens, tokens)}, {"weight": "kron"})
        >>> coverage(Head(3, 2, bias=False)).rows[0].structure
        'kron'
    """
    rule = user_rule(module_type, function, forms)
    _RULES[module_type] = Rule(rule, rule.forms)


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a module's class, or of a parent class if the module inherits its `forward`; None without one."""
    for parent in type(module).__mro__:
        rule = _RULES.get(parent)
        if rule is not None:
            if isinstance(rule.function, UserRule):
                rule.function.require_parameters(module)
            return _parametrized(rule, module) if type(module).forward is parent.forward else None  # type: ignore[attr-defined]
    return None


def _parametrized(rule: Rule, module: nn.Module) -> Rule:
    """The rule itself, or one for the lengths and directions of normalized weights."""
    own = [name for tensor in normalized_weights(module) if tensor in rule.forms for name in parameter_names(tensor)]
    if not own:
        return rule
    exact: dict[str, Form] = dict.fromkeys(own, "exact")
    return Rule(WeightNormalized(rule.function), {**rule.forms, **exact})
