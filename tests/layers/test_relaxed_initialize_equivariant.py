"""Relaxed layers that start as their equivariant path."""

import pytest
import torch
from torch import nn

import covary
from covary.errors import StructureError
from covary.layers import Conv, FactoredDense, Relaxed, SparseConv, SparseDense, initialize_equivariant
from covary.networks import relaxed_network
from covary.training.learning_rates import start_within


def factored(generator):
    return FactoredDense((2, 4, 4), (3, 4, 4), generator=generator)


def rms(tensor):
    return float(tensor.detach().square().mean().sqrt())


def test_the_equivariant_path_is_that_of_a_layer_of_its_own(generator):
    conv = Conv(2, 3, generator=generator)
    alone = conv.weight.detach().clone()
    layer = Relaxed({"f-fc": factored(generator), "conv": conv})
    assert not torch.allclose(conv.weight, alone)
    initialize_equivariant(layer, 0.1)
    torch.testing.assert_close(conv.weight.detach(), alone)


def test_priors_are_as_narrow_as_asked_and_biases_as_the_narrowest(generator):
    network = nn.Sequential(Relaxed({"f-fc": factored(generator), "conv": Conv(2, 3, generator=generator)}))
    found = initialize_equivariant(network, 0.1)
    path = network[0].paths["f-fc"]
    weights = {name: tensor for name, tensor in path.named_parameters() if rms(tensor) > 0}
    expected = {f"0.paths.f-fc.{name}": (0.1 * rms(tensor)) ** -2 for name, tensor in weights.items()}
    biases = {f"0.paths.f-fc.{name}" for name, tensor in path.named_parameters() if rms(tensor) == 0}
    assert len(biases) == len(weights) == 2
    assert found == pytest.approx(expected | dict.fromkeys(biases, max(expected.values())), rel=1e-6)


def test_anchors_and_inverse_length_of_a_basis_get_no_precision(generator):
    shapes = (2, 4, 4), (3, 4, 4)
    free = SparseDense(*shapes, length_scale="weight", generator=generator)
    layer = Relaxed({"s-fc": free, "s-conv": SparseConv(2, 3, generator=generator)})
    found = initialize_equivariant(layer, 0.1)
    covary.Prior(layer, precision=found | {"*": 1.0})  # a pattern that matches nothing would be refused
    names = {name.rpartition(".")[2] for name in found}
    assert names == {"values", "bias"}
    assert {name.rpartition(".")[2] for name, _ in free.named_parameters()} == {"values", "bias", "offsets", "omega"}


def test_names_are_patterns_of_themselves_alone(generator):
    layer = Relaxed({"f[3]": factored(generator), "conv": Conv(2, 3, generator=generator)})
    prior = covary.Prior(layer, precision=initialize_equivariant(layer, 0.1) | {"*": 1.0})
    assert prior.precision[prior.names.index("paths.f[3].read.weight")] > 100


def test_frozen_tensors_have_no_prior_to_start_with(generator):
    network = nn.Sequential(Relaxed({"f-fc": factored(generator), "conv": Conv(2, 3, generator=generator)}))
    network[0].paths["f-fc"].read.requires_grad_(False)
    found = initialize_equivariant(network, 0.1)
    assert set(found) == {"0.paths.f-fc.write.weight", "0.paths.f-fc.write.bias"}
    covary.Prior(network, precision=found | {"*": 1.0})  # a pattern that matches nothing would be refused


def test_layers_of_one_path_stay_as_they_are(generator):
    network = relaxed_network("conv", 1, (1, 8, 8), 3, generator=generator)
    before = {name: tensor.detach().clone() for name, tensor in network.named_parameters()}
    assert initialize_equivariant(network, 0.1) == {}
    assert all(torch.equal(before[name], tensor) for name, tensor in network.named_parameters())


@pytest.mark.parametrize(("variant", "equivariant"), [("f-fc+conv", "conv"), ("f-fc+conv+gconv", "gconv-pointwise")])
def test_a_fit_starts_near_the_network_of_equivariant_paths_alone(variant, equivariant, generator):
    """In the limit it is that network: with its weights, and other paths that are nearly inactive."""
    x = torch.randn(5, 1, 8, 8, generator=generator)
    outputs = {}
    for relaxation in (1e-2, 1e-6):
        network = relaxed_network(variant, 2, (1, 8, 8), 3, generator=torch.Generator().manual_seed(1))
        alone = relaxed_network(equivariant, 2, (1, 8, 8), 3)
        prior = covary.Prior(network, precision=initialize_equivariant(network, relaxation) | {"*": 1.0})
        start_within(covary.Model(network, prior=prior), prior)
        last = variant.split("+")[-1]
        own = {
            name.replace(f"paths.{last}.", f"paths.{equivariant if last == 'conv' else _name(alone)}."): tensor
            for name, tensor in network.state_dict().items()
        }
        alone.load_state_dict({name: own[name] for name in alone.state_dict()})
        outputs[relaxation] = (network(x) - alone(x)).norm() / alone(x).norm()
    assert outputs[1e-2] < 0.1
    assert outputs[1e-6] < 1e-5


def _name(network):
    return next(iter(network.blocks[0].paths))


@pytest.mark.parametrize(("signal", "grows"), [(0.0, False), (2.0, True)])
def test_a_nearly_inactive_tensor_grows_if_its_gradient_exceeds_the_noise(signal, grows, generator):
    """The closed form of the docstring, on a linear model with Gaussian noise, where the evidence is exact."""
    x = torch.randn(30, 4, generator=generator)
    y = 0.3 * torch.randn(30, 1, generator=generator) + signal * x[:, :1]
    network, precision = nn.Linear(4, 1, bias=False), 1e7
    gradient, curvature = x.mT @ y, x.mT @ x
    with torch.no_grad():
        network.weight.copy_((gradient / precision).mT)
    prior = covary.Prior(network, precision=precision)
    found = covary.hypergrad.two_pass(covary.Model(network, covary.Gaussian(), prior), (x, y), "full")
    expected = 0.5 * (curvature.trace() - gradient.square().sum()) / precision
    torch.testing.assert_close(found["prior.log_precision"], expected.reshape(1), rtol=1e-4, atol=0)
    assert bool(expected < 0) == grows


@pytest.mark.parametrize("relaxation", [0.0, 1.0, -1.0, float("nan")])
def test_a_relaxation_is_between_0_and_1(relaxation, generator):
    with pytest.raises(StructureError, match="between 0 and 1"):
        initialize_equivariant(relaxed_network("f-fc+conv", 1, (1, 8, 8), 3, generator=generator), relaxation)
