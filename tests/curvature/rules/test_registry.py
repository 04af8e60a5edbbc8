"""Rules of users: the example of the documentation, and a wrong rule."""

import pytest
import torch
from torch import Tensor, nn

from cases import NUM_OUTPUTS, targets
from covary.curvature import DirectVJP, OuterFactors, full, kfac, register_rule
from covary.curvature.rules import registry
from covary.errors import UnsupportedLayerError
from oracles.curvature import ggn, loss_of


@pytest.fixture(autouse=True)
def _own_table(monkeypatch):
    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))


def prelu(module: nn.PReLU, inputs: Tensor) -> dict[str, DirectVJP]:
    """One coefficient for all features: its derivative is the negative part of the input."""
    del module
    return {"weight": DirectVJP(lambda gradient: (gradient * inputs.clamp(max=0)).flatten(1).sum(1, keepdim=True))}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.PReLU(), nn.Linear(5, NUM_OUTPUTS))


def test_a_registered_rule_is_used_and_exact():
    register_rule(nn.PReLU, prelu, {"weight": "exact"})
    net, x, y = network(), torch.randn(3, 4), targets("categorical", 3)
    ours = full(net, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(net, x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)
    assert kfac(net, (x, y))["1.weight"].size == 1


def test_a_wrong_rule_is_found_before_it_is_used():
    register_rule(
        nn.PReLU, lambda m, x: {"weight": DirectVJP(lambda g: g.flatten(1).sum(1, keepdim=True))}, {"weight": "exact"}
    )
    with pytest.raises(UnsupportedLayerError, match=r"parameter '1.weight' as autograd has it.*rule of PReLU"):
        kfac(network(), (torch.randn(3, 4), targets("categorical", 3)))


class Mixer(nn.Module):
    """A weight over features, shared by two halves of the input, which are the rows of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(1, (2, 2)) @ self.weight.T


def test_a_registered_outer_rule_gives_kronecker_blocks():
    def halves(x: Tensor) -> Tensor:
        return x.unflatten(2, (2, 2)).unsqueeze(3)

    register_rule(Mixer, lambda m, x: {"weight": OuterFactors(x, halves, lambda g: g.unsqueeze(3))}, {"weight": "kron"})
    torch.manual_seed(0)
    net = nn.Sequential(Mixer(), nn.Tanh(), nn.Flatten(), nn.Linear(6, NUM_OUTPUTS))
    x, y = torch.randn(3, 4), targets("categorical", 3)
    ours = full(net, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(net, x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)
    assert [tuple(t.shape) for t in kfac(net, (x, y))["0.weight"].tensors] == [(2, 2), (3, 3)]
