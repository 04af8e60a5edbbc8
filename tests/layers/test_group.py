"""Group convolutions against filters turned by hand, with strictness under every shift and every element."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from covary.data import load
from covary.errors import ShapeError, StructureError
from covary.groups import P4, P4M, cyclic, square_group
from covary.layers import Conv, FactoredDense, GroupConv, GroupPool, group

FACTORIZATIONS = ("full", "separable", "depthwise", "pointwise")

# the actions of P4 and P4M by hand, in the order of their elements
TURNS = [lambda x, k=k: torch.rot90(x, k, (-2, -1)) for k in range(4)]
MIRRORS = [lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.mT, lambda x: x.flip(-1, -2).mT]
ACTIONS = {"P4": TURNS, "P4M": TURNS + MIRRORS}
GROUPS = {"P4": P4, "P4M": P4M}


def find(actions, second, first):
    """The element that acts as `first`, then `second`, found by looking."""
    image = torch.arange(9.0).view(3, 3)
    target = actions[second](actions[first](image))
    return next(i for i, action in enumerate(actions) if torch.equal(action(image), target))


def inverse(actions, element):
    return next(i for i in range(len(actions)) if find(actions, i, element) == 0)


def slices(features, size):
    return features.unflatten(1, (-1, size))


def move(features, actions, shift):
    """Features in the turned frame under a shift of the image: slice h is turned, shifted and turned back."""
    parts = [
        actions[inverse(actions, h)](actions[h](part).roll(shift, (-2, -1)))
        for h, part in enumerate(slices(features, len(actions)).unbind(2))
    ]
    return torch.stack(parts, 2).flatten(1, 2)


def permute(features, actions, element):
    """Features in the turned frame under an element t: slice t h is slice h of before."""
    before = slices(features, len(actions))
    after = torch.empty_like(before)
    for h in range(len(actions)):
        after[:, :, find(actions, element, h)] = before[:, :, h]
    return after.flatten(1, 2)


def correlate(image, kernel):
    """The circular correlation of images (N, H, W) with a filter of odd side, shift by shift."""
    reach = len(kernel) // 2
    offsets = itertools.product(range(-reach, reach + 1), repeat=2)
    return sum(kernel[i + reach, j + reach] * image.roll((-i, -j), (-2, -1)) for i, j in offsets)


def by_hand(features, weight, bias, actions, inverted=True):
    """The full group convolution in the fixed frame: from slice g to slice h by the filter w[h⁻¹ g], turned by h."""
    size = len(actions)
    fixed = [actions[g](part) for g, part in enumerate(slices(features, size).unbind(2))]
    outputs = []
    for channel, h in itertools.product(range(len(weight)), range(size)):
        total = bias[channel]
        for other, g in itertools.product(range(weight.shape[1]), range(size)):
            offset = find(actions, inverse(actions, h) if inverted else h, g)
            total = total + correlate(fixed[g][:, other], actions[h](weight[channel, other, offset]))
        outputs.append(actions[inverse(actions, h)](total))
    return torch.stack(outputs, 1)


def randomize(module, generator):
    """The module with biases that are not zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return module


def images(kind, generator):
    if kind == "noise":
        return torch.randn(2, 1, 5, 5, generator=generator)
    if kind == "even noise":
        return torch.randn(2, 1, 4, 4, generator=generator)
    return functional.pad(load("mnist-mini").x_train[:2].double(), (2, 2, 2, 2))


def shifts(side):
    """Every shift of a small image, some of a large one."""
    every = list(itertools.product(range(side), repeat=2))
    return every if side <= 5 else every[1 :: side**2 // 5]


def stack(name, factorization, generator):
    """Two layers with a ReLU between, from plain images."""
    first = GroupConv(1, 2, group=GROUPS[name], factorization=factorization, lift=True)
    second = GroupConv(2, 2, group=GROUPS[name], factorization=factorization)
    return randomize(nn.Sequential(first, nn.ReLU(), second), generator)


@pytest.mark.parametrize("kind", ["noise", "even noise", "digits"])
@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@pytest.mark.parametrize("name", GROUPS)
@torch.no_grad()
def test_layers_commute_with_every_shift_and_every_element(name, factorization, kind, generator):
    network, x, actions = stack(name, factorization, generator), images(kind, generator), ACTIONS[name]
    outputs = network(x)
    for shift in shifts(x.shape[-1]):
        torch.testing.assert_close(network(x.roll(shift, (-2, -1))), move(outputs, actions, shift), rtol=0, atol=1e-10)
    for element, action in enumerate(actions):
        torch.testing.assert_close(network(action(x)), permute(outputs, actions, element), rtol=0, atol=1e-10)


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@torch.no_grad()
def test_zero_padding_breaks_shifts(factorization, generator, monkeypatch):
    """The control: borders show."""
    monkeypatch.setattr(group, "pad_circular", lambda rows, k: functional.pad(rows, [(k - 1) // 2] * 4))
    network, x = stack("P4", factorization, generator), images("noise", generator)
    error = network(x.roll((1, 2), (-2, -1))) - move(network(x), TURNS, (1, 2))
    assert error.abs().max() > 1e-2


@pytest.mark.parametrize("name", GROUPS)
@torch.no_grad()
def test_full_convolution_by_hand(name, generator):
    actions = ACTIONS[name]
    layer = randomize(GroupConv(2, 3, group=GROUPS[name]), generator)
    features = torch.randn(2, 2 * len(actions), 5, 5, generator=generator)
    weight, bias = layer.stages.kernel.weight, layer.stages.kernel.bias
    expected = by_hand(features, weight, bias, actions)
    torch.testing.assert_close(layer(features), expected, rtol=0, atol=1e-12)
    layer.stages.kernel.turns_filters = False  # the definition in the turned frame, which any action has
    torch.testing.assert_close(layer(features), expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_kernel_indexed_without_the_inverse_does_not_turn_with_its_input(generator):
    """The control for the index of the kernel."""
    weight, bias = torch.randn(2, 1, 4, 3, 3, generator=generator), torch.zeros(2)
    features = torch.randn(1, 4, 5, 5, generator=generator)
    for inverted in (True, False):
        turned = by_hand(permute(features, TURNS, 1), weight, bias, TURNS, inverted)
        error = (turned - permute(by_hand(features, weight, bias, TURNS, inverted), TURNS, 1)).abs().max()
        assert (error < 1e-12) == inverted


@torch.no_grad()
def test_slices_mixed_without_turning_them_do_not_shift_with_their_input(generator, monkeypatch):
    """The control for u in the definition: a three-dimensional convolution over turned images keeps the group only."""
    monkeypatch.setattr(
        group, "align", lambda x, g: torch.stack([x[..., [row[u] for row in g.table], :, :] for u in range(4)], -3)
    )
    network, x = stack("P4", "full", generator), images("noise", generator)
    for stage in (network[0].stages.kernel, network[2].stages.kernel):
        stage.turns_filters = False
    torch.testing.assert_close(network(torch.rot90(x, 1, (-2, -1))), permute(network(x), TURNS, 1))
    error = network(x.roll((1, 2), (-2, -1))) - move(network(x), TURNS, (1, 2))
    assert error.abs().max() > 1e-2


@pytest.mark.parametrize("factorization", ["separable", "depthwise"])
@torch.no_grad()
def test_factored_convolutions_are_full_ones_with_a_factored_kernel(factorization, generator):
    """Stage after stage, the filter at offset u is the spatial filter turned by u, times weights of u."""
    layer = randomize(GroupConv(2, 3, group=P4M, factorization=factorization), generator)
    stages, actions = dict(layer.stages.named_children()), ACTIONS["P4M"]
    spatial, mixing = stages["spatial"].weight[:, 0], stages["mixing"].weight[..., 0, 0]
    over_group = (
        mixing if factorization == "separable" else mixing.unsqueeze(-1) * stages["turns"].weight[:, 0, :, 0, 0]
    )
    turned = torch.stack([action(spatial) for action in actions], 1)  # (C, |G|, k, k)
    kernel = over_group[..., None, None] * turned
    bias = stages["mixing"].bias.clone()
    if factorization == "separable":
        bias += torch.einsum("ocu,c->o", mixing, stages["spatial"].bias)
    else:
        through = stages["turns"].weight.sum((1, 2, 3, 4)) * stages["spatial"].bias
        bias += mixing @ (through + stages["turns"].bias)
    features = torch.randn(2, 16, 5, 5, generator=generator)
    torch.testing.assert_close(layer(features), by_hand(features, kernel, bias, actions), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GROUPS)
@torch.no_grad()
def test_pointwise_layers_average_the_plain_network_over_turned_inputs(name, generator):
    """Paper 2, App. F.3; the outputs are invariant, those of the plain network are not."""
    actions, element = ACTIONS[name], dict(group=GROUPS[name], factorization="pointwise")
    layers = [
        GroupConv(1, 3, lift=True, **element),
        nn.ReLU(),
        GroupConv(3, 4, **element),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        GroupConv(4, 5, 1, **element),
        nn.ReLU(),
        GroupConv(5, 3, 1, **element),
        GroupPool(GROUPS[name]),
        nn.Flatten(),
    ]
    network = randomize(nn.Sequential(*layers), generator)
    plain = [Conv(1, 3), nn.ReLU(), Conv(3, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    plain = nn.Sequential(*plain, Conv(4, 5, 1), nn.ReLU(), Conv(5, 3, 1), nn.Flatten())
    plain.load_state_dict(dict(zip(plain.state_dict(), network.state_dict().values(), strict=True)))
    x = images("noise", generator)
    average = torch.stack([plain(action(x)) for action in actions]).mean(0)
    torch.testing.assert_close(network(x), average, rtol=0, atol=1e-12)
    torch.testing.assert_close(network(TURNS[1](x)), average, rtol=0, atol=1e-12)
    assert (plain(TURNS[1](x)) - plain(x)).abs().max() > 1e-3


@pytest.mark.parametrize(
    "build",
    [
        lambda: square_group(("identity", "flip_x")),
        lambda: cyclic(3),
        lambda: cyclic(8, "quarter_turn"),
        lambda: cyclic(3, lambda x: x.roll(x.shape[-1] // 3, -1)),
    ],
    ids=["mirror", "slices alone", "through a homomorphism", "by shifts"],
)
@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@torch.no_grad()
def test_any_group_by_table_and_action(build, factorization, generator):
    over, x = build(), torch.randn(2, 1, 6, 6, generator=generator)
    actions = [lambda image, g=g: over.act(image, g) for g in range(over.size)]
    for side in (1, 2, 3):
        layers = [GroupConv(1, 2, side, group=over, factorization=factorization, lift=True), nn.ReLU()]
        layers.append(GroupConv(2, 1, side, group=over, factorization=factorization))
        network = randomize(nn.Sequential(*layers), generator)
        outputs = network(x)
        for g in range(over.size):
            before, after = slices(outputs, over.size), slices(network(over.act(x, g)), over.size)
            for h in range(over.size):
                torch.testing.assert_close(after[:, :, over.table[g][h]], before[:, :, h], rtol=0, atol=1e-10)
        moved = torch.stack(
            [
                actions[over.inverses[h]](actions[h](part).roll((1, 3), (-2, -1)))
                for h, part in enumerate(slices(outputs, over.size).unbind(2))
            ],
            2,
        ).flatten(1, 2)
        torch.testing.assert_close(network(x.roll((1, 3), (-2, -1))), moved, rtol=0, atol=1e-10)


def test_filters_are_turned_only_where_that_is_the_same():
    """A shift of pixels does not act on filters, nor does a turn on filters without a center."""
    by_shifts = cyclic(3, lambda x: x.roll(x.shape[-1] // 3, -1))
    for over, side, expected in [(P4M, 3, True), (P4M, 2, False), (cyclic(3), 2, True), (by_shifts, 3, False)]:
        assert GroupConv(1, 1, side, group=over).stages.kernel.turns_filters == expected


@torch.no_grad()
def test_a_factored_dense_layer_over_the_group(generator):
    """Paper 2, App. A: θ₁(c', c, g') Σ_g θ₂(c', c, g) x(c, g), with g running over elements and positions."""
    layer = randomize(FactoredDense((2, 4 * 3, 3), (3, 4 * 2, 2)), generator)
    features = torch.randn(2, 2 * 4, 3, 3, generator=generator)
    outputs = layer(features.reshape(2, 2, 4 * 3, 3)).reshape(2, 3 * 4, 2, 2)
    read = layer.read.weight.unflatten(2, (4, 3, 3))  # c, c', h, y, x
    write = layer.write.weight.unflatten(1, (4, 2, 2))  # c', h', y', x', c
    offsets = layer.write.bias.view(4, 2, 2)
    for out, h in itertools.product(range(3), range(4)):
        total = offsets[h].expand(2, 2, 2)
        for c in range(2):
            seen = sum((features[:, 4 * c + g] * read[c, out, g]).sum((1, 2)) for g in range(4)) + layer.read.bias[out]
            total = total + seen[:, None, None] * write[out, h, :, :, c]
        torch.testing.assert_close(outputs[:, 4 * out + h], total, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("factorization", "expected"),
    [("full", 1_025_380), ("separable", 214_550), ("depthwise", 139_725), ("pointwise", 338_770)],
)
def test_parameters_of_the_networks_of_table_7(factorization, expected):
    channels = [3, 10, 20, 20, 40, 40, 80, 80, 160]
    layers = [GroupConv(a, b, group=P4, factorization=factorization) for a, b in itertools.pairwise(channels)]
    head = [GroupConv(a, b, 1, group=P4, factorization="pointwise") for a, b in [(160, 640), (640, 10)]]
    assert sum(p.numel() for layer in layers + head for p in layer.parameters()) == expected


def test_shapes_of_weights():
    shapes = {
        "full": {"kernel": (3, 2, 8, 5, 5)},
        "separable": {"spatial": (2, 1, 5, 5), "mixing": (3, 2, 8, 1, 1)},
        "depthwise": {"spatial": (2, 1, 5, 5), "turns": (2, 1, 8, 1, 1), "mixing": (3, 2, 1, 1)},
        "pointwise": {"kernel": (3, 2, 5, 5)},
    }
    for factorization, expected in shapes.items():
        stages = GroupConv(2, 3, 5, group=P4M, factorization=factorization).stages
        assert {name: tuple(stage.weight.shape) for name, stage in stages.named_children()} == expected
        assert all(tuple(stage.bias.shape) == stage.weight.shape[:1] for stage in stages)


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@torch.no_grad()
def test_rescaling_multiplies_the_output(factorization, generator):
    layer = randomize(GroupConv(2, 3, group=P4, factorization=factorization), generator)
    features = torch.randn(2, 8, 4, 4, generator=generator)
    before = layer(features)
    layer.rescale_(0.3)
    torch.testing.assert_close(layer(features), 0.3 * before)


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@torch.no_grad()
def test_initial_weights_double_the_second_moment_and_are_drawn_from_the_generator(factorization):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(4, 32 * 4, 8, 8, generator=draw)
    state = draw.get_state()
    layer = GroupConv(32, 64, group=P4, factorization=factorization, generator=draw)
    # 64 filters with some sharing: within a fifth
    assert math.isclose(layer(features).square().mean(), 2 * features.square().mean(), rel_tol=0.2)
    assert all((stage.bias == 0).all() for stage in layer.stages)
    again = GroupConv(
        32, 64, group=P4, factorization=factorization, generator=torch.Generator().set_state(state)
    ).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in layer.state_dict().items())


def test_pool_is_the_mean_over_the_group(generator):
    features = torch.randn(2, 12, 3, 2, generator=generator)
    expected = torch.stack([features[:, 4 * c : 4 * c + 4].mean(1) for c in range(3)], 1)
    torch.testing.assert_close(GroupPool(P4)(features), expected)


def test_layers_can_be_copied_printed_and_made_without_memory():
    layer = GroupConv(1, 2, group=P4, factorization="separable", lift=True)
    x = torch.rand(1, 1, 4, 4)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert "quarter_turns, separable, lift" in repr(layer)
    assert "2×1×4×1×1" in repr(layer)
    with torch.device("meta"):
        assert GroupConv(1, 2, group=P4M).stages.kernel.weight.device.type == "meta"


def test_errors():
    with pytest.raises(StructureError, match="among full, separable, depthwise, pointwise, got 'half'"):
        GroupConv(1, 2, group=P4, factorization="half")
    with pytest.raises(
        ShapeError, match=r"expected 8 channels, 2 per element, got \(1, 2, 4, 4\). Plain images need lift"
    ):
        GroupConv(2, 2, group=P4)(torch.zeros(1, 2, 4, 4))
    with pytest.raises(ShapeError, match=r"expected 2 channels, 2, got \(1, 8, 4, 4\)"):
        GroupConv(2, 2, group=P4, lift=True)(torch.zeros(1, 8, 4, 4))
    with pytest.raises(ShapeError, match="Expected square images"):
        GroupConv(2, 2, group=P4, lift=True)(torch.zeros(1, 2, 4, 5))
    with pytest.raises(ShapeError, match=r"a multiple of 4 channels, got \(1, 6, 4, 4\)"):
        GroupPool(P4)(torch.zeros(1, 6, 4, 4))


@pytest.mark.parametrize("sizes", [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_invalid_sizes(sizes):
    with pytest.raises(ShapeError, match="GroupConv expected channels and sides of 1 or more"):
        GroupConv(*sizes, group=P4)


def test_a_filter_that_reaches_around_the_image_more_than_once():
    with pytest.raises(ShapeError, match="at least 2 pixels per side .*got 1×1"):
        GroupConv(1, 1, 5, group=P4).double()(torch.zeros(1, 4, 1, 1))
