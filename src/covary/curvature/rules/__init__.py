"""Curvature rules: the factors of each type of layer.

One function per layer type, `(module, inputs) -> {parameter: factors}`, with inputs of shape (N, S, ...); the factors
and their layout are defined in `curvature/jacobian_factors.py`.
"""

from .registry import Rule, register_rule, rule_for
from .user import Form

__all__ = ["Form", "Rule", "register_rule", "rule_for"]
