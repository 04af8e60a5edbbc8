"""Modules of covary behave as any other `nn.Module`: none of torch's methods is hidden by one of ours."""

import importlib
import pkgutil

import pytest
import torch
from torch import nn

import covary
from covary.augment import Affine2d, Composed, FiniteGroup
from covary.layers import Bias
from covary.networks import Averaged, Standardized, fixup_resnet, relaxed_network

# What a subclass is meant to define; `_conv_forward` is torch's own hook of a convolution.
EXTENDED = {"forward", "extra_repr", "_conv_forward"}


def subclasses(parent: type) -> set[type]:
    found = set(parent.__subclasses__())
    return found.union(*(subclasses(child) for child in found))


def modules_of_covary() -> list[type]:
    for module in pkgutil.walk_packages(covary.__path__, "covary."):
        if not module.name.endswith("__main__") and ".integrations." not in module.name:  # other libraries
            importlib.import_module(module.name)
    own = [cls for cls in subclasses(nn.Module) if cls.__module__.startswith("covary.")]
    return sorted(own, key=lambda cls: f"{cls.__module__}.{cls.__qualname__}")


def hidden(cls: type) -> set[str]:
    """Names of torch's that a class defines itself, special methods aside."""
    inherited = {name for parent in cls.__mro__[1:] if parent.__module__.startswith("torch.") for name in vars(parent)}
    return {name for name in inherited & vars(cls).keys() if not name.startswith("__")} - EXTENDED


def test_no_module_hides_a_method_of_torch():
    modules = modules_of_covary()
    assert {Averaged, Affine2d, Bias, covary.Prior} <= set(modules)
    assert {cls.__qualname__: hidden(cls) for cls in modules if hidden(cls)} == {}


def test_a_hidden_method_is_found():
    class Hiding(nn.Linear):
        def apply(self, x, noise):
            return x

        def forward(self, input):
            return input

    assert hidden(Hiding) == {"apply"}


@pytest.mark.parametrize(
    "inner",
    [
        lambda: relaxed_network("f-fc+conv+gconv", 1, (1, 4, 4), 3),
        lambda: Standardized(fixup_resnet(8, 2, 1, 3), torch.zeros(1), torch.ones(1)),
    ],
)
def test_apply_visits_every_submodule(inner):
    network = Averaged(inner(), Composed(FiniteGroup("flips"), Affine2d()), 2)
    visited = []

    def initialize(module):
        visited.append(module)
        for parameter in module.parameters(recurse=False):
            nn.init.constant_(parameter, 0.25)

    assert network.apply(initialize) is network
    assert set(visited) == set(network.modules())
    assert len(visited) == len(set(visited))
    assert all((parameter == 0.25).all() for parameter in network.parameters())
