"""Relaxed layers that start as their strict path."""

import pytest
import torch
from torch import nn

import covary
from covary._errors import StructureError
from covary.config import STRICT
from covary.layers import Conv, FactoredDense, Relaxed, SparseConv, SparseDense, begin_strict
from covary.networks import relaxed_network
from covary.training.state import initial_state


def factored(generator):
    return FactoredDense((2, 4, 4), (3, 4, 4), generator=generator)


def rms(tensor):
    return float(tensor.detach().square().mean().sqrt())


def test_the_strict_path_is_what_it_is_alone(generator):
    conv = Conv(2, 3, generator=generator)
    alone = conv.weight.detach().clone()
    layer = Relaxed({"f-fc": factored(generator), "conv": conv})
    assert not torch.allclose(conv.weight, alone)
    begin_strict(layer, 0.1)
    torch.testing.assert_close(conv.weight.detach(), alone)


def test_priors_are_as_narrow_as_asked_and_biases_as_the_narrowest(generator):
    network = nn.Sequential(Relaxed({"f-fc": factored(generator), "conv": Conv(2, 3, generator=generator)}))
    found = begin_strict(network, 0.1)
    path = network[0].paths["f-fc"]
    weights = {name: tensor for name, tensor in path.named_parameters() if rms(tensor) > 0}
    expected = {f"0.paths.f-fc.{name}": (0.1 * rms(tensor)) ** -2 for name, tensor in weights.items()}
    biases = {f"0.paths.f-fc.{name}" for name, tensor in path.named_parameters() if rms(tensor) == 0}
    assert len(biases) == len(weights) == 2
    assert found == pytest.approx(expected | dict.fromkeys(biases, max(expected.values())), rel=1e-6)


def test_where_a_basis_lies_and_how_wide_it_is_stays_free(generator):
    shapes = (2, 4, 4), (3, 4, 4)
    free = SparseDense(*shapes, length_scale="weight", generator=generator)
    found = begin_strict(Relaxed({"s-fc": free, "s-conv": SparseConv(2, 3, generator=generator)}), 0.1)
    names = {name.rpartition(".")[2] for name in found}
    assert names == {"values", "bias"}
    assert {name.rpartition(".")[2] for name, _ in free.named_parameters()} == {"values", "bias", "offsets", "omega"}


def test_layers_of_one_path_stay_as_they_are(generator):
    network = relaxed_network("conv", 1, (1, 8, 8), 3, generator=generator)
    before = {name: tensor.detach().clone() for name, tensor in network.named_parameters()}
    assert begin_strict(network, 0.1) == {}
    assert all(torch.equal(before[name], tensor) for name, tensor in network.named_parameters())


@pytest.mark.parametrize(("variant", "strict"), [("f-fc+conv", "conv"), ("f-fc+conv+gconv", "gconv-pointwise")])
def test_a_fit_starts_near_the_network_of_strict_paths_alone(variant, strict, generator):
    """In the limit it is that network: its weights are put into the other one, whose relaxing paths are nearly off."""
    x = torch.randn(5, 1, 8, 8, generator=generator)
    outputs = {}
    for relaxation in (1e-2, 1e-6):
        network = relaxed_network(variant, 2, (1, 8, 8), 3, generator=torch.Generator().manual_seed(1))
        alone = relaxed_network(strict, 2, (1, 8, 8), 3)
        prior = covary.Prior(network, precision=begin_strict(network, relaxation) | {"*": 1.0})
        initial_state(network, covary.Categorical(), prior, STRICT)
        last = variant.split("+")[-1]
        own = {
            name.replace(f"paths.{last}.", f"paths.{strict if last == 'conv' else _name(alone)}."): tensor
            for name, tensor in network.state_dict().items()
        }
        alone.load_state_dict({name: own[name] for name in alone.state_dict()})
        outputs[relaxation] = (network(x) - alone(x)).norm() / alone(x).norm()
    assert outputs[1e-2] < 0.1
    assert outputs[1e-6] < 1e-5


def _name(network):
    return next(iter(network.blocks[0].paths))


@pytest.mark.parametrize("relaxation", [0.0, 1.0, -1.0, float("nan")])
def test_a_relaxation_is_a_share(relaxation, generator):
    with pytest.raises(StructureError, match="between 0 and 1"):
        begin_strict(relaxed_network("f-fc+conv", 1, (1, 8, 8), 3, generator=generator), relaxation)
