"""The plain ends: a matrix, and a circular convolution."""

import itertools
import re

import jaxtyping
import pytest
import torch
from torch import nn

from covary.errors import ShapeError
from covary.groups import P4
from covary.layers import (
    Conv,
    Dense,
    FactoredDense,
    FixedFrame,
    GroupConv,
    GroupPool,
    PolyphasePool,
    SparseConv,
    SparseDense,
)
from covary.layers.sparse import stationary
from oracles.layers import circular_map

IN, OUT = (2, 4, 3), (3, 2, 5)


def randomized(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


def test_dense_is_its_matrix():
    layer, x = randomized(Dense(IN, OUT)), torch.randn(5, *IN)
    expected = torch.stack([layer.weight @ one.flatten() + layer.bias for one in x]).view(5, *OUT)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("kernel_size", [1, 2, 3])
@pytest.mark.parametrize("size", [(4, 5), (2, 2), (1, 3)])
def test_conv_is_the_circular_matrix(kernel_size, size):
    layer, x = randomized(Conv(2, 3, kernel_size)), torch.randn(4, 2, *size)
    matrix = circular_map(layer.weight.detach(), *size)
    expected = (x.flatten(1) @ matrix.T).view(4, 3, *size) + layer.bias[:, None, None]
    torch.testing.assert_close(layer(x), expected)


def test_conv_commutes_with_every_shift():
    layer, x = randomized(Conv(2, 3)), torch.randn(4, 2, 5, 4)
    padded = nn.Conv2d(2, 3, 3, padding=1)  # the control: zeros at the border
    for shift in [(1, 0), (0, 1), (3, 2)]:
        moved = x.roll(shift, (2, 3))
        torch.testing.assert_close(layer(moved), layer(x).roll(shift, (2, 3)), rtol=0, atol=1e-12)
        assert (padded(moved) - padded(x).roll(shift, (2, 3))).abs().max() > 1e-2


def test_parameter_counts():
    assert sum(p.numel() for p in Dense((3, 32, 32), (10, 4, 4)).parameters()) == 160 * 3072 + 160
    assert sum(p.numel() for p in Conv(10, 20).parameters()) == 20 * 10 * 9 + 20


@pytest.mark.parametrize(
    "build", [lambda g: Dense((4, 8, 8), (16, 8, 8), generator=g), lambda g: Conv(64, 64, generator=g)]
)
def test_initial_second_moment_survives_a_relu(build, generator):
    layer = build(generator)
    x = torch.randn(16, 4 if isinstance(layer, Dense) else 64, 8, 8, generator=generator)
    ratio = layer(x.relu()).relu().square().mean() / x.relu().square().mean()
    assert abs(ratio.item() - 1) < 0.15  # 1,000 outputs and more: a few per cent of noise
    assert not layer.bias.any()


@pytest.mark.parametrize("build", [lambda g: Dense(IN, OUT, generator=g), lambda g: Conv(2, 3, generator=g)])
def test_weights_are_drawn_from_the_generator_alone(build):
    before = torch.get_rng_state()
    first, second = [build(torch.Generator().manual_seed(3)) for _ in range(2)]
    other = build(torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.weight, second.weight)
    assert not torch.equal(first.weight, other.weight)


@pytest.mark.parametrize("layer", [Dense(IN, OUT), Conv(2, 3)], ids=["dense", "conv"])
def test_rescale_multiplies_the_output(layer):
    x = torch.randn(4, *IN)
    layer = randomized(layer).to(x)
    before = layer(x).detach()
    layer.rescale_(0.3)
    torch.testing.assert_close(layer(x), 0.3 * before)


def test_features_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"\(N, 2, 4, 3\), got \(5, 2, 4, 4\)"):
        Dense(IN, OUT)(torch.randn(5, 2, 4, 4))


def test_invalid_sizes_and_features():
    with pytest.raises(ShapeError, match="Conv expected channels and sides of 1 or more, got 0, 3, 3"):
        Conv(0, 3)
    with pytest.raises(ShapeError, match="Dense expected channels and sides of 1 or more, got 2, 0, 3, 3, 2, 5"):
        Dense((2, 0, 3), OUT)
    with pytest.raises(ShapeError, match=r"Conv expected features of shape \(N, 2, H, W\), got \(1, 3, 4, 4\)"):
        Conv(2, 3)(torch.zeros(1, 3, 4, 4))


@pytest.mark.parametrize("kind", [Dense, FactoredDense, SparseDense])
@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 4, 4), (2,), ()])
def test_shapes_of_another_rank_are_refused(kind, shape):
    for shapes in ((shape, OUT), (IN, shape)):
        with pytest.raises(
            ShapeError, match=rf"^{kind.__name__} expected a shape \(C, H, W\), got {re.escape(str(shape))}"
        ):
            kind(*shapes)


LAYERS = {
    "Dense": lambda: Dense((8, 4, 4), OUT),
    "FactoredDense": lambda: FactoredDense((8, 4, 4), OUT),
    "SparseDense": lambda: SparseDense((8, 4, 4), OUT),
    "GlobalSum": lambda: stationary(SparseDense((8, 4, 4), OUT)),
    "Conv": lambda: Conv(8, 4),
    "SparseConv": lambda: SparseConv(8, 4),
    "GroupConv": lambda: GroupConv(2, 3, group=P4),
    "FixedFrame": lambda: FixedFrame(Conv(8, 4), P4),
    "GroupPool": lambda: GroupPool(P4),
    "PolyphasePool": lambda: PolyphasePool(2),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", [(8, 4, 4), (4, 8, 4), (2, 8), (8,), (1, 8, 8, 4, 4)], ids=str)
def test_features_of_another_rank_are_refused(name, shape, monkeypatch):
    # annotations are checked in tests alone, where they would speak first
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    layer = LAYERS[name]()
    assert layer(torch.zeros(1, 8, 4, 4)).ndim == 4  # the control
    with pytest.raises(ShapeError, match=rf"^{name} expected .*\(N, .*got {re.escape(str(shape))}"):
        layer(torch.zeros(shape))


@pytest.mark.parametrize(("kernel_size", "fits"), [(3, True), (5, True), (4, True), (6, False), (7, False)])
def test_a_filter_may_reach_around_the_image_once(kernel_size, fits):
    layer, x = randomized(Conv(1, 1, kernel_size)), torch.randn(2, 1, 2, 5)
    if fits:
        expected = x.flatten(1) @ wrapped_map(layer.weight.detach()[0, 0], 2, 5).T + layer.bias
        torch.testing.assert_close(layer(x).flatten(1), expected)
    else:
        with pytest.raises(ShapeError, match="at least 3 pixels per side .*got 2×5"):
            layer(x)


def wrapped_map(kernel: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The matrix of a circular filter, entry by entry; several entries may meet in one pixel."""
    size, before = len(kernel), (len(kernel) - 1) // 2
    matrix = torch.zeros(height, width, height, width)
    for i, j, a, b in itertools.product(range(height), range(width), range(size), range(size)):
        matrix[i, j, (i + a - before) % height, (j + b - before) % width] += kernel[a, b]
    return matrix.view(height * width, height * width)
