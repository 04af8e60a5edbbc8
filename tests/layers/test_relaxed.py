import math

import pytest
import torch
from torch import nn

from covary.errors import ShapeError, StructureError
from covary.groups import P4, P4M, cyclic, lift, permute_slices, square_group, turn_slices
from covary.layers import (
    Conv,
    Dense,
    FactoredDense,
    FixedFrame,
    GroupConv,
    PolyphasePool,
    Relaxed,
    SparseConv,
    SparseDense,
)
from covary.layers.sparse import stationary
from shifted import distance, rolled

SHIFTS = [(1, 0), (0, 3), (5, 2)]


def awake(module, generator):
    """The module with every weight drawn: zero biases would hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def paths_of(generator, size=(6, 6), pooled=(3, 3)):
    """One path of each kind, from 2 channels to 3."""
    shapes = (2, *size), (3, *pooled)
    sparse_dense = SparseDense(*shapes, generator=generator)
    return {
        "conv": Conv(2, 3, generator=generator),
        "fc": Dense(*shapes, generator=generator),
        "s-conv": SparseConv(2, 3, generator=generator),
        "f-fc": FactoredDense(*shapes, generator=generator),
        "s-fc": sparse_dense,
        "sum": stationary(sparse_dense),
    }


def test_is_the_sum_of_its_paths_pooled_where_they_are_not_dense(generator):
    x, pool = torch.randn(3, 2, 6, 6, generator=generator), PolyphasePool(2)
    layer = awake(Relaxed(paths_of(generator), pool), generator)
    outputs = {name: path(x) for name, path in layer.paths.items()}
    dense = outputs["fc"] + outputs["f-fc"] + outputs["s-fc"] + outputs["sum"]
    torch.testing.assert_close(layer(x), pool(outputs["conv"] + outputs["s-conv"]) + dense)
    # The control: paths that choose their phases each by itself give something else.
    apart = pool(outputs["conv"]) + pool(outputs["s-conv"]) + dense
    assert not torch.allclose(layer(x), apart, atol=0.01)


@pytest.mark.parametrize("names", [("conv", "s-conv"), ("f-fc",), ("f-fc", "fc")])
def test_paths_of_one_kind_and_without_a_pool(names, generator):
    x, paths = torch.randn(3, 2, 6, 6, generator=generator), paths_of(generator, pooled=(6, 6))
    layer = Relaxed({name: paths[name] for name in names})
    torch.testing.assert_close(layer(x), torch.stack([paths[name](x) for name in names]).sum(0))


def test_dense_paths_alone_are_not_pooled(generator):
    x, dense = torch.randn(3, 2, 6, 6, generator=generator), paths_of(generator)["fc"]
    assert torch.equal(Relaxed({"fc": dense}, PolyphasePool(2))(x), dense(x))


def test_sum_keeps_the_variance(generator):
    x = torch.randn(100, 2, 6, 6, generator=generator)
    shapes = (2, 6, 6), (40, 6, 6)
    paths = {
        "fc": Dense(*shapes, generator=generator),
        "f-fc": FactoredDense(*shapes, generator=generator),
        "conv": Conv(2, 40, generator=generator),
    }
    before = {name: path(x).detach() for name, path in paths.items()}
    layer = Relaxed(paths)
    for name, path in layer.paths.items():
        torch.testing.assert_close(path(x), before[name] / math.sqrt(3))
    # Twice the input's second moment, which a ReLU halves; 10 % of it is the scatter of 40 channels' weights.
    assert float(layer(x).detach().square().mean()) == pytest.approx(2, rel=0.1)
    assert float(sum(before.values()).square().mean()) > 5


def test_one_path_is_left_as_it_is(generator):
    conv = Conv(2, 3, generator=generator)
    before = conv.weight.detach().clone()
    Relaxed({"conv": conv})
    assert torch.equal(conv.weight, before)


def test_names_follow_the_mapping(generator):
    paths = paths_of(generator)
    layer = Relaxed({name: paths[name] for name in ("f-fc", "conv")})
    assert [name for name, _ in layer.named_parameters()] == [
        *("paths.f-fc.read.weight", "paths.f-fc.read.bias", "paths.f-fc.write.weight", "paths.f-fc.write.bias"),
        *("paths.conv.weight", "paths.conv.bias"),
    ]


def test_conv_over_a_group_commutes_with_shifts_in_the_fixed_frame(generator):
    images = torch.randn(3, 1, 8, 8, generator=generator)
    conv = awake(Conv(4, 8, generator=generator), generator)
    framed = FixedFrame(conv, P4)

    def fixed(layer, x):
        return turn_slices(layer(lift(x, P4)), P4, range(4))

    assert distance(fixed(framed, rolled(images, SHIFTS)), rolled(fixed(framed, images), SHIFTS)) < 1e-10
    torch.testing.assert_close(fixed(framed, images), conv(turn_slices(lift(images, P4), P4, range(4))))
    # The controls: in the turned frame it does not, and with turns it commutes in neither.
    assert distance(fixed(conv, rolled(images, SHIFTS)), rolled(fixed(conv, images), SHIFTS)) > 0.1
    turned = framed(lift(images.rot90(1, (2, 3)), P4))
    assert distance(turned, permute_slices(framed(lift(images, P4)), P4, 1)) > 0.1


def test_rescaling_in_the_fixed_frame(generator):
    x = torch.randn(3, 8, 4, 4, generator=generator)
    framed = FixedFrame(awake(Conv(8, 4, generator=generator), generator), P4)
    before = framed(x)
    framed.rescale_(0.3)
    torch.testing.assert_close(framed(x), 0.3 * before)


@pytest.mark.parametrize(
    ("paths", "pool", "message"),
    [
        (
            {"conv": Conv(2, 3), "s-conv": SparseConv(2, 4)},
            None,
            r"Expected features of shape \(1, 3, 6, 6\) from path 's-conv'.*got \(1, 4, 6, 6\)",
        ),
        ({"fc": Dense((2, 6, 6), (3, 6, 6)), "conv": Conv(2, 3)}, PolyphasePool(2), "from path 'fc'"),
        ({"conv": Conv(2, 3), "gconv": GroupConv(2, 3, group=P4, lift=True)}, None, "from path 'gconv'"),
    ],
)
def test_paths_that_do_not_agree(paths, pool, message):
    with pytest.raises(ShapeError, match=message):
        Relaxed(paths, pool).double()(torch.zeros(1, 2, 6, 6))


def test_invalid_paths():
    with pytest.raises(StructureError, match="Expected one or more paths, got none"):
        Relaxed({})
    conv = Conv(2, 3)
    before = conv.weight.detach().clone()
    with pytest.raises(StructureError, match=r"method rescale_.*got 'plain' \(Conv2d\)"):
        Relaxed({"conv": conv, "plain": nn.Conv2d(2, 3, 3)})
    assert torch.equal(conv.weight, before)


@pytest.mark.parametrize("name", ["a.b", "keys", "training", ""])
def test_invalid_names_of_a_path(name):
    conv = Conv(2, 3)
    before = conv.weight.detach().clone()
    with pytest.raises(StructureError, match=f"Expected a path name .*got '{name}'"):
        Relaxed({"conv": conv, name: Conv(2, 3)})
    assert torch.equal(conv.weight, before)


class Corner(nn.Module):
    """A path of a user's own, straight onto the pooled grid: a number times the upper left of the image."""

    added_after_pool = True

    def __init__(self, side):
        super().__init__()
        self.side, self.weight = side, nn.Parameter(torch.ones(3, 1, 1, 1))

    def forward(self, x):
        return nn.functional.conv2d(x[:, :1, : self.side, : self.side], self.weight)

    def rescale_(self, factor):
        self.weight.data.mul_(factor)


class Anywhere(Corner):
    """The same without that attribute: the control."""

    added_after_pool = False


def test_a_custom_path_that_is_added_after_the_pool(generator):
    x, pool = torch.randn(3, 2, 6, 6, generator=generator), PolyphasePool(2)
    layer = Relaxed({"corner": Corner(3), "conv": Conv(2, 3, generator=generator)}, pool)
    expected = pool(layer.paths["conv"](x)) + layer.paths["corner"](x)
    torch.testing.assert_close(layer(x), expected)
    with pytest.raises(ShapeError, match="from path 'conv'"):
        Relaxed({"corner": Anywhere(3), "conv": Conv(2, 3, generator=generator)}, pool)(x)


def test_a_factored_path_over_a_group(generator):
    """Every position of every slice is read into each pair of channels, and written to every one."""
    x, pool = torch.randn(5, 2 * 4, 4, 4, generator=generator), PolyphasePool(2, P4)
    factored = awake(FactoredDense((2, 4, 4), (3, 2, 2), group=P4, generator=generator), generator)
    layer = Relaxed({"gconv": GroupConv(2, 3, group=P4, generator=generator), "f-fc": factored}, pool)
    read, write = factored.read, factored.write
    summed = torch.einsum("coghw,ncghw->noc", read.weight.view(2, 3, 4, 4, 4), x.view(5, 2, 4, 4, 4))
    written = torch.einsum("oghwc,noc->noghw", write.weight.view(3, 4, 2, 2, 2), summed + read.bias[:, None])
    expected = (written + write.bias.view(4, 2, 2)).reshape(5, 12, 2, 2)
    torch.testing.assert_close(layer(x), pool(layer.paths["gconv"](x)) + expected)


@pytest.mark.parametrize(
    "path", [GroupConv(2, 3, group=P4), FixedFrame(Conv(8, 12), P4)], ids=lambda path: type(path).__name__
)
@pytest.mark.parametrize(
    ("group", "name"), [(None, "no group"), (P4M, "dihedral"), (cyclic(4), r"cyclic\(4\)")], ids=str
)
def test_a_pool_over_another_group_than_its_paths_is_refused(path, group, name):
    conv = Conv(8, 12)
    before = conv.weight.detach().clone()
    message = f"Expected a pool over quarter_turns, the group of path 'over', .*got one over {name}. Pass PolyphasePool"
    with pytest.raises(StructureError, match=message):
        Relaxed({"conv": conv, "over": path}, PolyphasePool(2, group))
    assert torch.equal(conv.weight, before)


HALVES = cyclic(2, lambda x: x.roll(x.shape[-1] // 2, -1))


@pytest.mark.parametrize(
    ("over", "pooled"),
    [(P4, P4), (P4, square_group("quarter_turns")), (cyclic(3), cyclic(3)), (cyclic(3), None), (HALVES, None)],
    ids=str,
)
def test_a_pool_over_the_same_group_or_one_that_leaves_shifts_alone_commutes(over, pooled, generator):
    """A roll of pixels takes every shift to itself: slices move alike, and one phase serves them all."""
    x = torch.randn(3, 1, 8, 8, generator=generator)
    layer = Relaxed({"gconv": GroupConv(1, 2, group=over, lift=True)}, PolyphasePool(2, pooled))
    layer = awake(layer, generator).double()

    def fixed(features):
        return turn_slices(features, over, range(over.size))

    assert distance(fixed(layer(rolled(x, SHIFTS))), fixed(layer(x))) < 1e-10
    for element in range(over.size):
        moved = permute_slices(layer(x), over, element)
        assert distance(fixed(layer(over.act(x, element))), fixed(moved)) < 1e-10


REORDERED = square_group(("identity", "half_turn", "quarter_turn", "three_quarter_turn"))


@pytest.mark.parametrize("other", [square_group("flips"), REORDERED, cyclic(4)], ids=["flips", "reordered", "cyclic"])
def test_paths_over_different_groups_are_refused(other, generator):
    first, second = (GroupConv(1, 2, group=group, lift=True, generator=generator) for group in (P4, other))
    x = torch.randn(2, 1, 6, 6, generator=generator)
    # each alone commutes with shifts, seen in the fixed frame of its group; the sum of the slices does so in neither
    turned = [turn_slices(first(x) + second(x), group, range(4)) for group in (P4, other)]
    moved = [turn_slices(first(x.roll(1, 2)) + second(x.roll(1, 2)), group, range(4)) for group in (P4, other)]
    assert not any(torch.allclose(m, t.roll(1, 2)) for m, t in zip(moved, turned, strict=True))
    with pytest.raises(StructureError, match=r"one group, got 'p4' over quarter_turns and 'other' over .*P4M"):
        Relaxed({"p4": first, "other": second})


def test_paths_over_equal_groups_are_not(generator):
    same = square_group(("identity", "quarter_turn", "half_turn", "three_quarter_turn"))
    paths = {"fixed": FixedFrame(Conv(4, 8), same), "gconv": GroupConv(1, 2, group=P4)}
    assert Relaxed(paths)(torch.randn(2, 4, 6, 6, generator=generator)).shape == (2, 8, 6, 6)


def test_channels_that_are_not_slices_of_a_group():
    with pytest.raises(ShapeError, match=r"multiple of 4 channels, got \(1, 6, 4, 4\)"):
        FixedFrame(Conv(8, 4), P4)(torch.zeros(1, 6, 4, 4))
    with pytest.raises(ShapeError, match=r"Conv expected features of shape \(N, 8, H, W\), got \(1, 4, 4, 4\)"):
        FixedFrame(Conv(8, 4), P4)(torch.zeros(1, 4, 4, 4))
