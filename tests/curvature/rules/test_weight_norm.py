"""Layers under weight normalization: products by the chain rule against autograd, and what has no rule."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from covary.curvature import coverage, full
from covary.curvature.rules import rule_for
from curvature.rules.rule_checks import check_rule
from oracles.curvature import ggn, loss_of

LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (4,)),
    "linear of tokens": (lambda: nn.Linear(4, 3), (2, 4)),
    "convolution": (lambda: nn.Conv2d(4, 6, 2, groups=2), (4, 3, 3)),
    "transposed convolution": (lambda: nn.ConvTranspose1d(2, 3, 2), (2, 4)),
}


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize(("build", "shape"), LAYERS.values(), ids=list(LAYERS))
def test_lengths_and_directions(build, shape, dim, generator):
    module = weight_norm(build(), dim=dim)
    with torch.no_grad():  # a length other than that of the direction
        module.parametrizations.weight.original0 *= 1.7
    check_rule(module, torch.randn(2, 3, *shape, generator=generator), generator)
    assert not coverage(module).by_autograd


def test_a_second_parametrization_and_other_ones_are_covered_by_autograd():
    twice = spectral_norm(weight_norm(nn.Linear(4, 3))).eval()
    for module in (twice, spectral_norm(nn.Linear(4, 3)).eval()):
        assert not any("." in name for name in rule_for(module).forms)
        assert all("original" in row.name for row in coverage(module).by_autograd)
        x, y = torch.randn(3, 4), torch.arange(3)
        torch.testing.assert_close(full(module, (x, y)).to_dense(), ggn(module, x, loss_of("categorical", y)))


def test_a_weight_that_two_layers_share_in_different_parametrizations_is_exact():
    first, second = weight_norm(nn.Linear(3, 3)), nn.Linear(3, 3)
    second.weight = first.parametrizations.weight.original1
    network, x, y = nn.Sequential(first, nn.Tanh(), second), torch.randn(4, 3), torch.arange(4) % 3
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))
