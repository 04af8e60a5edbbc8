"""A rule against autograd: the factors of a single layer must reproduce the gradient of every parameter."""

import torch
from torch import Tensor, nn

from covary.curvature.rules import rule_for
from oracles.layers import parameter_gradients


def check_rule(module: nn.Module, x: Tensor, generator: torch.Generator) -> None:
    """Compare the products of a layer's factors with autograd, for all data, for a slice of them, and their sum.

    Arguments:
        module: The layer.
        x: Its inputs with the sample axis, (N, S, ...).
        generator: The source of the output gradient.
    """
    outputs = module(x.flatten(0, 1)).unflatten(0, x.shape[:2])
    gradient = torch.randn(outputs.shape, generator=generator)
    expected = parameter_gradients(module, x, gradient)
    rule = rule_for(module)
    assert rule is not None
    factors = rule.function(module, x)
    assert expected.keys() <= rule.forms.keys()
    for name, rows in expected.items():
        torch.testing.assert_close(factors[name].vjp(gradient), rows, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(factors[name].vjp(gradient, slice(1, 2)), rows[1:2], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(factors[name].summed_vjp(gradient), rows.sum(0), rtol=1e-10, atol=1e-12)
