import math

import pytest
import torch
from torch.nn.functional import conv2d, linear, pad

import covary
from covary.errors import ShapeError, StructureError
from covary.groups import lift
from covary.layers import PolyphasePool, Relaxed
from covary.networks import relaxed_network
from covary.networks.relaxed import VARIANTS
from oracles.curvature import ggn, loss_of


def awake(network, generator):
    """The network with every weight moved: zero biases would hide mistakes."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return network


# At α=10 on 3×32×32 with 10 classes. Sparse: 5 of 9 anchors in a filter, half of each grid (512 of 1024) in a map,
# two coordinates for each anchor; its maps have no bias per position.
NUM_PARAMS = {
    "fc": 133_635_690,
    "conv": 338_770,
    "f-fc": 1_542_625,
    "fc+conv": 133_865_010,
    "f-fc+conv": 1_771_945,
    "s-conv": 237_130,
    "s-fc": 836_214,
    "s-fc+s-conv": 963_894,
    "gconv-full": 1_025_380,
    "gconv-separable": 214_550,
    "gconv-depthwise": 139_725,
    "gconv-pointwise": 338_770,
    "f-fc+conv+gconv": 26_902_615,
}
CHANNELS = (3, 10, 20, 20, 40, 40, 80, 80, 160)
SIDES = (32, 32, 16, 16, 8, 8, 4, 2, 1)
HEAD = 160 * 640 + 640 + 640 * 10 + 10


def count(of_layer):
    """The head's parameters and a sum over layers, of channels and pixels in and out."""
    pixels = [side**2 for side in SIDES]
    return HEAD + sum(
        of_layer(c, d, x, y) for c, d, x, y in zip(CHANNELS, CHANNELS[1:], pixels, pixels[1:], strict=False)
    )


BY_HAND = {
    "fc": lambda c, d, x, y: (c * x + 1) * d * y,
    "conv": lambda c, d, x, y: (9 * c + 1) * d,
    "f-fc": lambda c, d, x, y: c * d * (x + y) + d + y,
    "s-conv": lambda c, d, x, y: (5 * c + 1) * d + 5 * 2,
    "s-fc": lambda c, d, x, y: (c * d + 2) * (math.ceil(x / 2) + math.ceil(y / 2)) + d,
    "gconv-full": lambda c, d, x, y: (36 * c + 1) * d,
    "gconv-separable": lambda c, d, x, y: (9 + 1) * c + (4 * c + 1) * d,
    "gconv-depthwise": lambda c, d, x, y: (9 + 1) * c + (4 + 1) * c + (c + 1) * d,
    "gconv-pointwise": lambda c, d, x, y: (9 * c + 1) * d,
    # the plain paths see four slices of every channel
    "f-fc+conv+gconv": lambda c, d, x, y: (
        16 * c * d * (x + y) + 4 * d + y + (9 * 4 * c + 1) * 4 * d + BY_HAND["conv"](c, d, x, y)
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_number_of_parameters(variant):
    # the dense ones have half a gigabyte of weights, so they are only thought of
    with torch.device("meta" if "fc" in variant.split("+") else "cpu"):
        network = relaxed_network(variant, 10, (3, 32, 32), 10)
    found = sum(parameter.numel() for parameter in network.parameters())
    parts = [variant] if variant in BY_HAND else variant.split("+")
    assert found == NUM_PARAMS[variant]
    assert found - HEAD == sum(count(BY_HAND[part]) - HEAD for part in parts)


@pytest.mark.parametrize("variant", VARIANTS)
def test_blocks_are_sums_of_named_paths(variant):
    network = relaxed_network(variant, 1, (1, 8, 8), 3)
    assert len(network.blocks) == 8
    assert all(isinstance(block, Relaxed) for block in network.blocks)
    assert all(tuple(block.paths) == VARIANTS[variant] for block in network.blocks)


@pytest.mark.parametrize(("variant", "number"), [("conv", 20), ("f-fc", 36), ("f-fc+conv", 52)])
def test_prior_has_one_precision_per_tensor(variant, number):
    network = relaxed_network(variant, 1, (1, 8, 8), 3)
    groups = covary.Prior(network).groups
    assert len(groups) == number
    part = variant.split("+")[0]
    assert groups[0] == {"conv": "blocks.0.paths.conv.weight", "f-fc": "blocks.0.paths.f-fc.read.weight"}[part]


@pytest.mark.parametrize(
    ("size", "strides"),
    [
        ((32, 32), [None, (2, 2), None, (2, 2), None, (2, 2), (2, 2), (2, 2)]),
        ((28, 28), [None, (2, 2), None, (2, 2), None, None, None, (7, 7)]),
        ((64, 6), [None, (2, 2), None, (2, 1), None, (2, 1), (2, 1), (4, 3)]),
        ((1, 1), [None] * 8),
    ],
)
def test_images_of_any_size(size, strides, generator):
    network = relaxed_network("f-fc+conv", 1, (2, *size), 5, generator=generator)
    assert [block.pool and block.pool.stride for block in network.blocks] == strides
    assert network(torch.randn(3, 2, *size, generator=generator)).shape == (3, 5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_for_every_variant(variant, generator):
    network = relaxed_network(variant, 1, (2, 6, 6), 5, generator=generator)
    x = torch.randn(3, 2, 6, 6, generator=generator)
    assert network(x).shape == (3, 5)
    assert network(x).std() > 0


def test_is_its_formula(generator):
    network = awake(relaxed_network("fc+conv", 2, (1, 8, 8), 3, generator=generator), generator)
    x = torch.randn(4, 1, 8, 8, generator=generator)
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    features = x
    for number, stride in enumerate((1, 2, 1, 2, 1, 2, 1, 1)):
        paths = f"blocks.{number}.paths"
        padded = pad(features, (1, 1, 1, 1), mode="circular")
        convolved = conv2d(padded, weights[f"{paths}.conv.weight"], weights[f"{paths}.conv.bias"])
        convolved = PolyphasePool(stride)(convolved)
        dense = linear(features.flatten(1), weights[f"{paths}.fc.weight"], weights[f"{paths}.fc.bias"])
        features = torch.relu(convolved + dense.view_as(convolved))
    hidden = torch.relu(linear(features.flatten(1), weights["head.1.weight"], weights["head.1.bias"]))
    torch.testing.assert_close(network(x), linear(hidden, weights["head.3.weight"], weights["head.3.bias"]))


def second_moments(network, x):
    """The mean square of each block's output before its ReLU, in units of the images'."""
    moments, features = [], x if network.group is None else lift(x, network.group)
    with torch.no_grad():
        for block in network.blocks:
            output = block(features)
            moments.append(output.square().mean() / x.square().mean())
            features = output.relu()
    return torch.stack(moments)


@pytest.mark.parametrize("variant", VARIANTS)
def test_initial_second_moments(variant, generator):
    x = torch.randn(50, 3, 8, 8, generator=generator)
    networks = [relaxed_network(variant, 8, (3, 8, 8), 2, generator=generator) for _ in range(3)]
    found = torch.stack([second_moments(network, x) for network in networks]).median(0).values
    # A factor of ten leaves room for the scatter of few random filters; the control has weights twice as large.
    assert found.max() < 10
    assert found.min() > 0.1
    with torch.no_grad():
        for block in networks[0].blocks:
            for path in block.paths.values():
                path.rescale_(2.0)
    assert second_moments(networks[0], x).max() > 100


def test_weights_follow_the_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for variant in VARIANTS:
        made = [
            relaxed_network(variant, 1, (1, 4, 4), 2, generator=torch.Generator().manual_seed(seed))
            for seed in (1, 1, 2)
        ]
        first, same, other = (torch.cat([p.detach().flatten() for p in network.parameters()]) for network in made)
        assert torch.equal(first, same)
        assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("length_scale", ["fixed", "weight", "hyperparameter"])
def test_length_scale_is_passed_on(length_scale):
    network = relaxed_network("s-fc+s-conv", 1, (1, 4, 4), 2, length_scale=length_scale)
    omegas = [name for name, _ in network.named_parameters() if name.endswith("omega")]
    weights = [name for name in covary.Prior(network).names if name.endswith("omega")]
    assert len(omegas) == (0 if length_scale == "fixed" else 24)
    assert weights == (omegas if length_scale == "weight" else [])


@pytest.mark.parametrize(
    ("variant", "alpha", "shape", "outputs", "error", "message"),
    [
        ("conv+fc", 2, (1, 8, 8), 3, StructureError, "among fc, conv, .*gconv-pointwise, got 'conv\\+fc'"),
        ("conv", 0, (1, 8, 8), 3, ShapeError, "1 or more, .*alpha=0"),
        ("conv", 1, (1, 0, 8), 3, ShapeError, "not empty"),
        ("conv", 1, (1, 8, 8), 0, ShapeError, "an output or more, .* 0 outputs"),
        (
            "gconv-full",
            1,
            (1, 8, 6),
            3,
            ShapeError,
            "Expected square images for the quarter turns of 'gconv-full', got 8×6",
        ),
    ],
)
def test_networks_that_cannot_be(variant, alpha, shape, outputs, error, message):
    with pytest.raises(error, match=message):
        relaxed_network(variant, alpha, shape, outputs)


def learned_scale(variant):
    """A length-scale with a curvature of its own, where the variant has any."""
    return "weight" if variant.startswith("s-") else "fixed"


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_has_a_curvature_rule(variant):
    network = relaxed_network(variant, 1, (1, 8, 8), 3, length_scale=learned_scale(variant))
    assert covary.curvature.coverage(network).by_autograd == ()


def problem(generator, size, num_data=3):
    inputs = torch.randn(num_data, 1, size, size, generator=generator)
    return inputs, torch.randn(num_data, 3, generator=generator)


@pytest.mark.parametrize("variant", VARIANTS)
def test_curvature_of_every_variant(variant, generator):
    scale = learned_scale(variant)
    network = awake(relaxed_network(variant, 1, (1, 8, 8), 3, length_scale=scale, generator=generator), generator)
    data = problem(generator, 8)
    # of every tensor that is small: all tensors together would make a matrix of a gigabyte
    names = [name for name, parameter in network.named_parameters() if parameter.numel() <= 64]
    expected = ggn(network, data[0], loss_of("gaussian", data[1]), names).detach()
    with torch.no_grad():
        found = covary.curvature.full(covary.Model(network, covary.Gaussian()).restricted(names), data).to_dense()
        kron = covary.curvature.kfac(covary.Model(network, covary.Gaussian()), data)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected)
    assert torch.isfinite(kron.diagonal()).all()
    assert kron.diagonal().shape == (sum(parameter.numel() for parameter in network.parameters()),)


@pytest.mark.parametrize("variant", ["s-fc", "gconv-depthwise"])
def test_full_curvature_is_that_of_the_oracle(variant, generator):
    network = awake(relaxed_network(variant, 1, (1, 4, 4), 3, generator=generator), generator)
    data = problem(generator, 4, num_data=2)
    expected = ggn(network, data[0], loss_of("gaussian", data[1])).detach()
    assert expected.abs().max() > 1e-3
    with torch.no_grad():
        found = covary.curvature.full(covary.Model(network, covary.Gaussian()), data).to_dense()
    torch.testing.assert_close(found, expected)


def test_evidence_gradient_through_pools_and_length_scales(generator):
    make = relaxed_network("s-fc+s-conv", 1, (1, 4, 4), 3, length_scale="hyperparameter", generator=generator)
    network, likelihood = awake(make, generator), covary.Gaussian()
    prior, data = covary.Prior(network), problem(generator, 4, num_data=2)
    gradient = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), data, "kron")
    one_graph = covary.hypergrad.direct(covary.Model(network, likelihood, prior), data)
    assert gradient["blocks.1.paths.s-fc.read.omega"].abs().max() > 1e-6
    for name, value in one_graph.items():
        torch.testing.assert_close(gradient[name], value, msg=name)
