"""Networks with only equivariant paths are exactly invariant, pools and padding included."""

from itertools import product

import pytest
import torch
from torch import nn

from covary.groups import lift, turn_slices
from covary.layers import PolyphasePool, SparseDense
from covary.networks import relaxed_network
from shifted import digits, distance, rolled

EXACT = 1e-10
SHIFTS = [(1, 0), (0, 1), (3, 6), (15, 30), (16, 16)]
EXACT_PATHS = {
    "conv": "conv",
    "fc+conv": "conv",
    "f-fc+conv": "conv",
    "s-conv": "s-conv",
    "s-fc+s-conv": "s-conv",
    "gconv-full": "gconv",
    "gconv-separable": "gconv",
    "gconv-depthwise": "gconv",
    "gconv-pointwise": "gconv",
    "f-fc+conv+gconv": "gconv",
}
OVER_TURNS = [variant for variant in EXACT_PATHS if "gconv" in variant]


def equivariant_network(variant, generator, keep=None, alpha=2):
    """A network with no weight or bias at zero, except in paths that are not equivariant: there all are zero."""
    network = relaxed_network(variant, alpha, (1, 32, 32), 4, generator=generator)
    keep = keep or (EXACT_PATHS[variant],)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
            if ".paths." in name and name.split(".paths.")[1].split(".")[0] not in keep:
                parameter.zero_()
    return network


def images(kind, generator):
    return digits(5) if kind == "digits" else torch.randn(5, 1, 32, 32, generator=generator)


@torch.no_grad()
def feature_maps(network, x):
    """The output of every block, in the frame where a shift moves all slices alike."""
    maps, features = [], x if network.group is None else lift(x, network.group)
    for block in network.blocks:
        features = block(features).relu()
        maps.append(features if network.group is None else turn_slices(features, network.group, range(4)))
    return maps


def change(network, x, transformed):
    """How much the outputs change, at most, in units of their spread over the data."""
    with torch.no_grad():
        outputs = network(x)
        return float((network(transformed) - outputs).abs().max() / outputs.std(0).mean())


@pytest.mark.parametrize("kind", ["digits", "noise"])
@pytest.mark.parametrize("variant", EXACT_PATHS)
def test_shifts(variant, kind, generator):
    network, x = equivariant_network(variant, generator), images(kind, generator)
    shifted = rolled(x, SHIFTS)
    assert change(network, x, shifted) < EXACT
    for found, expected in zip(feature_maps(network, shifted), feature_maps(network, x), strict=True):
        assert distance(found, expected) < EXACT


@pytest.mark.parametrize("kind", ["digits", "noise"])
@pytest.mark.parametrize("variant", OVER_TURNS)
def test_quarter_turns(variant, kind, generator):
    network, x = equivariant_network(variant, generator), images(kind, generator)
    turned = torch.stack([image.rot90(number, (1, 2)) for number, image in enumerate(x)])
    assert change(network, x, turned) < EXACT
    assert change(network, x, rolled(turned, SHIFTS)) < EXACT
    # The control: a network without turns.
    assert change(equivariant_network("conv", generator), x, turned) > 0.1


@pytest.mark.parametrize("variant", ["conv", "gconv-full"])
def test_single_precision(variant, generator):
    network, x = equivariant_network(variant, generator).float(), digits(5).float()
    assert change(network, x, rolled(x, SHIFTS)) < 1e-4


@pytest.mark.parametrize("variant", ["conv", "gconv-full"])
def test_an_example_does_not_see_its_batch(variant, generator):
    network, x = equivariant_network(variant, generator), images("digits", generator)
    with torch.no_grad():
        alone = torch.cat([network(example) for example in x.split(1)])
        torch.testing.assert_close(alone, network(x), rtol=0, atol=EXACT)


@pytest.mark.parametrize("variant", ["conv", "gconv-full"])
def test_every_shift(variant, generator):
    """All 1,024 shifts of one digit, one after the other in a batch."""
    network, x = equivariant_network(variant, generator, alpha=1), images("digits", generator)
    every = torch.stack([x[0].roll(shift, (-2, -1)) for shift in product(range(32), range(32))])
    with torch.no_grad():
        outputs, spread = network(every), network(x).std(0).mean()
    assert (outputs - outputs[0]).abs().max() / spread < EXACT


class OnePhasePerSlice(PolyphasePool):
    """Each slice chooses its own grid, as a turned copy of the image does."""

    def forward(self, input):
        slices = input.unflatten(1, (-1, 4)).transpose(1, 2).flatten(0, 1)
        return super().forward(slices).unflatten(0, (-1, 4)).transpose(1, 2).flatten(1, 2)


@torch.no_grad()
def test_pointwise_is_the_average_over_turns_where_each_turn_pools_by_itself(generator):
    network, x = equivariant_network("gconv-pointwise", generator), images("digits", generator)
    plain = relaxed_network("conv", 2, (1, 32, 32), 4, generator=generator)
    shared = zip(plain.parameters(), network.parameters(), strict=True)
    for parameter, other in shared:
        parameter.copy_(other.view_as(parameter))
    average = torch.stack([plain(x.rot90(turn, (2, 3))) for turn in range(4)]).mean(0)
    assert (network(x) - average).abs().max() > 1e-3  # the control: one grid for all slices is another network
    with_pools(OnePhasePerSlice)(network)
    torch.testing.assert_close(network(x), average, rtol=0, atol=EXACT)


def test_images_with_a_turn_of_their_own(generator):
    x = images("digits", generator)
    symmetric = sum(x.rot90(turns, (2, 3)) for turns in range(4))
    # All phases of such an image tie; over the same group they are turned images that have the same logits.
    assert change(equivariant_network("gconv-full", generator), symmetric, rolled(symmetric, SHIFTS)) < EXACT


def test_plain_convolutions_beside_a_group_keep_shifts_but_not_turns(generator):
    network, x = equivariant_network("f-fc+conv+gconv", generator, keep=("conv", "gconv")), images("digits", generator)
    assert change(network, x, rolled(x, SHIFTS)) < EXACT
    assert change(network, x, x.rot90(1, (2, 3))) > 0.1


class OnePhaseForAll(PolyphasePool):
    def forward(self, input):
        return super().forward(input.flatten(0, 1)[None])[0].unflatten(0, input.shape[:2])


class OnePhasePerChannel(PolyphasePool):
    def forward(self, input):
        return super().forward(input.flatten(0, 1)[:, None]).squeeze(1).unflatten(0, input.shape[:2])


def with_pools(make):
    def alter(network):
        for block in network.blocks:
            block.pool = None if block.pool is None else make(block.pool.stride)

    return alter


def with_zero_padding(network):
    for block in network.blocks:
        block.paths["conv"].padding_mode = "zeros"


def with_parameters(network, ending, value):
    for name, parameter in network.named_parameters():
        if name.endswith(ending):
            nn.init.normal_(parameter, std=value)


CONTROLS = {
    "zero padding": ("conv", with_zero_padding),
    "a phase for the batch": ("conv", with_pools(OnePhaseForAll)),
    "a phase per channel": ("conv", with_pools(OnePhasePerChannel)),
    "a phase number for all slices": ("gconv-full", with_pools(PolyphasePool)),
    "max pooling": ("conv", with_pools(nn.MaxPool2d)),
    "a bias per position": ("f-fc+conv", lambda network: with_parameters(network, "f-fc.write.bias", 0.1)),
    "a dense path": ("fc+conv", lambda network: with_parameters(network, "fc.weight", 0.01)),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_controls(control, generator):
    variant, alter = CONTROLS[control]
    network, x = equivariant_network(variant, generator), images("digits", generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        alter(network)
    assert change(network, x, rolled(x, SHIFTS)) > 1e-3


def scale_path(path, factor):
    for parameter in path.parameters():
        parameter.mul_(factor)


def scale_values(path, factor):
    path.read.values.mul_(factor)
    path.write.values.mul_(factor)


def scale_omega(path, factor):
    assert isinstance(path, SparseDense)
    path.read.omega.mul_(factor)
    path.write.omega.mul_(factor)


@pytest.mark.parametrize(
    ("variant", "relaxing", "scale", "start", "order"),
    [
        ("fc+conv", "fc", scale_path, 1e-5, 1),
        (
            "f-fc+conv",
            "f-fc",
            scale_path,
            1e-5,
            1,
        ),  # by its bias per position; the product of its weights is of order 2
        ("s-fc+s-conv", "s-fc", scale_values, 1e-5, 1),  # by what is read as a bias; the product is of order 2
        ("s-fc+s-conv", "s-fc", scale_omega, 1e-3, 2),  # the basis is 1 - ω²d²
    ],
)
def test_error_vanishes_with_the_prior_scale(variant, relaxing, scale, start, order, generator):
    network = equivariant_network(variant, generator, keep=variant.split("+"))
    x, errors = images("digits", generator), []
    for factor in (start, 0.1):
        with torch.no_grad():
            for block in network.blocks:
                scale(block.paths[relaxing], factor)
        errors.append(change(network, x, rolled(x, SHIFTS)))
    assert errors[0] > 100 * EXACT
    assert errors[1] / errors[0] == pytest.approx(0.1**order, rel=0.02)
