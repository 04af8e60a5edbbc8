"""Sparse layers against the dense matrices they induce, and what they become without a length-scale."""

import pytest
import torch
from torch import Tensor, nn

from covary.errors import ShapeError, StructureError
from covary.groups import P4, lift
from covary.layers import FactoredDense, SparseConv, SparseDense
from covary.layers.sparse import stationary
from covary.priors import hyperparameters_of, weights_of
from oracles.layers import bumps, circular_map, factored_map, factored_offset

IN, OUT = (3, 4, 5), (2, 3, 4)


def moved(layer: nn.Module) -> nn.Module:
    """The layer with every parameter away from its symmetric initial value."""
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            scale = 0.1 if name.endswith(("omega", "offsets")) else 1.0
            parameter.add_(scale * torch.randn(parameter.shape, generator=noise))
    return layer


def without_omega(layer: nn.Module, omega: float = 0.0) -> nn.Module:
    with torch.no_grad():
        for module in layer.modules():
            if hasattr(module, "omega"):
                module.omega.fill_(omega)
    return layer


def test_initial_parameters_are_contiguous():
    for layer in (SparseConv(2, 3), SparseDense(IN, OUT)):
        assert all(parameter.is_contiguous() for parameter in layer.parameters())


@pytest.mark.parametrize("length_scale", ["fixed", "weight", "hyperparameter"])
def test_sparse_conv_is_the_circular_matrix_of_its_filters(length_scale):
    layer, x = moved(SparseConv(2, 3, length_scale=length_scale)), torch.randn(4, 2, 5, 4)
    filters = (layer.values @ bumps(layer.anchors, layer.omega.item(), 3, 3)).view(3, 2, 3, 3)
    expected = x.flatten(1) @ circular_map(filters.detach(), 5, 4).T
    torch.testing.assert_close(layer(x), expected.view(4, 3, 5, 4) + layer.bias[:, None, None])


@pytest.mark.parametrize("length_scale", ["fixed", "weight", "hyperparameter"])
def test_sparse_dense_is_the_factored_matrix_of_its_bases(length_scale):
    layer, x = moved(SparseDense(IN, OUT, length_scale=length_scale)), torch.randn(6, *IN)
    read, write = layer.read, layer.write
    theta_2 = torch.einsum("coj,jx->ocx", read.values, bumps(read.anchors, read.omega.item(), *IN[1:]))
    theta_1 = torch.einsum("ojc,jx->ocx", write.values, bumps(write.anchors, write.omega.item(), *OUT[1:]))
    expected = x.flatten(1) @ factored_map(theta_1, theta_2).T
    expected = expected + factored_offset(theta_1, read.bias, torch.zeros(12))
    torch.testing.assert_close(layer(x), expected.view(6, *OUT))


def group_bumps(module, height, width):
    """Bumps over elements and pixels from their definition, one position after the other."""
    elements = module.apart.argmin(1).tolist()
    slices = [
        bumps(module.anchors, module.omega.item(), height, width)
        * torch.tensor([1.0 if h == own else float(torch.exp(-(module.omega**2))) for own in elements])[:, None]
        for h in range(module.apart.shape[1])
    ]
    return torch.cat(slices, 1)


@pytest.mark.parametrize("length_scale", ["fixed", "weight", "hyperparameter"])
def test_sparse_dense_over_a_group_is_the_factored_matrix_of_bases_over_elements_and_pixels(length_scale):
    layer = moved(SparseDense((2, 2, 3), (3, 2, 2), length_scale=length_scale, group=P4))
    read, write, x = layer.read, layer.write, torch.randn(5, 2 * 4, 2, 3)
    assert read.values.shape == (2, 3, 12)
    assert sorted(read.apart.argmin(1).tolist()) == [h for h in range(4) for _ in range(3)], "anchors in every slice"
    theta_2 = torch.einsum("coj,jx->ocx", read.values, group_bumps(read, 2, 3))
    theta_1 = torch.einsum("ojc,jx->ocx", write.values, group_bumps(write, 2, 2))
    expected = x.flatten(1) @ factored_map(theta_1, theta_2).T  # (c, h, p) as in the features
    expected = expected + factored_offset(theta_1, read.bias, torch.zeros(16))
    torch.testing.assert_close(layer(x), expected.view(5, 3 * 4, 2, 2))


def test_sparse_dense_over_a_group_without_a_length_scale_is_invariant_to_it_and_to_shifts():
    layer = without_omega(moved(SparseDense((2, 3, 3), (2, 3, 3), length_scale="weight", group=P4)))
    x = lift(torch.randn(4, 2, 3, 3), P4)
    permuted = x.unflatten(1, (2, 4)).roll(1, 2).flatten(1, 2)
    torch.testing.assert_close(layer(permuted), layer(x))
    torch.testing.assert_close(layer(x.roll((1, 2), (2, 3))), layer(x))
    control = moved(SparseDense((2, 3, 3), (2, 3, 3), length_scale="weight", group=P4))
    assert not torch.allclose(control(permuted), control(x), rtol=0.01)


def test_plain_channels_for_a_sparse_layer_over_a_group_are_refused():
    with pytest.raises(ShapeError, match="SparseDense over quarter_turns expected 8 channels, 2 per element"):
        SparseDense((2, 3, 3), (2, 3, 3), group=P4)(torch.randn(1, 2, 3, 3))
    with pytest.raises(StructureError, match="Expected a sparse layer of plain features"):
        stationary(SparseDense((2, 3, 3), (2, 3, 3), group=P4))


def test_parameter_counts():
    assert sum(p.numel() for p in SparseConv(3, 4).parameters()) == 4 * 3 * 5 + 5 * 2 + 4
    assert sum(p.numel() for p in SparseConv(3, 4, length_scale="weight").parameters()) == 75
    layer = SparseDense((3, 32, 32), (10, 16, 16))
    assert layer.read.values.shape == (3, 10, 512)
    assert layer.write.values.shape == (10, 128, 3)
    assert sum(p.numel() for p in layer.parameters()) == 30 * (512 + 128) + 2 * (512 + 128) + 10
    assert SparseDense(IN, OUT, num_anchors=(4, 3)).write.values.shape == (2, 3, 3)


def test_roles_of_the_length_scale():
    fixed, weight, hyper = [SparseDense(IN, OUT, length_scale=s) for s in ("fixed", "weight", "hyperparameter")]
    omegas = {"read.omega", "write.omega"}
    assert omegas <= set(dict(fixed.named_buffers()))
    assert not omegas & set(dict(fixed.named_parameters()))
    assert omegas <= set(weights_of(weight))
    assert not hyperparameters_of(weight, weights_of(weight))
    assert set(hyperparameters_of(hyper, weights_of(hyper))) == omegas
    assert all(float(layer.read.omega) == 1 for layer in (fixed, weight, hyper))
    with pytest.raises(StructureError, match="'hyperparameter', got 'learned'"):
        SparseConv(1, 1, length_scale="learned")


@pytest.mark.parametrize("build", [SparseConv, SparseDense])
def test_initial_second_moment_of_smooth_features_survives_a_relu(build, generator):
    sizes = (16, 1000) if build is SparseConv else ((16, 8, 8), (500, 4, 4))
    layer = build(*sizes, generator=generator)
    places = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0)).to(torch.get_default_dtype())
    values, vectors = torch.linalg.eigh(torch.exp(-torch.cdist(places, places).square() / 2))
    noise = torch.randn(8, 16, 64, generator=generator)
    x = (noise @ (vectors * values.clamp(min=0).sqrt()).T).view(8, 16, 8, 8).relu()
    output = layer(x)[:, :, 1:-1, 1:-1] if build is SparseConv else layer(x)  # features are not smooth across borders
    ratio = output.square().mean() / x.square().mean()
    assert abs(ratio.item() - 2) < 0.3  # the next ReLU halves it; hundreds of filters: a few per cent of noise
    white = torch.randn(x.shape, generator=generator)
    assert layer(white).square().mean() < 1.5 * white.square().mean()  # the control: of noise they pass less than 2


@pytest.mark.parametrize(
    "build", [lambda g: SparseConv(2, 3, generator=g), lambda g: SparseDense(IN, OUT, generator=g)]
)
def test_values_are_drawn_from_the_generator_alone(build):
    before = torch.get_rng_state()
    first, second = [build(torch.Generator().manual_seed(3)).state_dict() for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("layer", [SparseConv(3, 2), SparseDense(IN, OUT)], ids=["conv", "dense"])
def test_rescale_multiplies_the_output(layer):
    x = torch.randn(4, *IN)
    layer = moved(layer.to(x))
    before = layer(x).detach()
    layer.rescale_(0.3)
    torch.testing.assert_close(layer(x), 0.3 * before)


def shift_error(layer: nn.Module, x: Tensor) -> float:
    """How far the outputs of shifted inputs are from the shifted outputs; grids of equal size."""
    return max(
        float((layer(x.roll(shift, (2, 3))) - layer(x).roll(shift, (2, 3))).abs().max())
        for shift in [(1, 0), (0, 1), (2, 3)]
    )


def test_without_omega_a_sparse_dense_layer_commutes_with_every_shift():
    """Paper 2, Eq. (8) for a prior on ω: the error of equivariance falls as ω², the variance of that prior."""
    layer, x = moved(SparseDense((3, 4, 4), (2, 4, 4), length_scale="weight")), torch.randn(5, 3, 4, 4)
    assert shift_error(without_omega(layer), x) < 1e-12
    errors = [shift_error(without_omega(layer, omega), x) for omega in (1e-2, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.02)
    assert shift_error(without_omega(layer, 1.0), x) > 1e-2  # the control


def test_with_zero_values_a_sparse_dense_layer_is_inactive():
    """Paper 2, Eq. (8) for a prior on anchor values; the control is a factored layer whose bias per position stays."""
    layer, x = moved(SparseDense((3, 4, 4), (2, 4, 4))), torch.randn(5, 3, 4, 4)
    with torch.no_grad():
        layer.write.values.zero_()
    assert not layer(x).any()
    factored = moved(FactoredDense((3, 4, 4), (2, 4, 4)))
    with torch.no_grad():
        factored.write.weight.zero_()
    assert shift_error(factored, x) > 1e-2


def test_a_sparse_convolution_commutes_with_every_shift():
    assert shift_error(moved(SparseConv(3, 2)), torch.randn(5, 3, 4, 4)) < 1e-12


@pytest.mark.parametrize("layer", [SparseConv(2, 3), SparseDense(IN, OUT).read], ids=["conv", "dense"])
def test_a_prior_pulls_anchors_to_where_they_started(layer):
    """A prior of mean zero acts on offsets; on positions it would draw all anchors into the center of the image."""
    started = layer.anchors.detach().clone()
    assert torch.cdist(started, started).fill_diagonal_(9).min() >= 1
    moved(layer)
    away = (layer.anchors - started).detach()
    for parameter in layer.parameters():
        parameter.data.mul_(0.5)  # one step along the prior's gradient
    torch.testing.assert_close(layer.anchors - started, 0.5 * away)
    assert away.abs().max() > 0.05


def test_numbers_of_anchors_for_reading_and_writing():
    layer = SparseDense(IN, OUT, num_anchors=[4, 3])
    assert (len(layer.read.anchors), len(layer.write.anchors)) == (4, 3)
    with pytest.raises(StructureError, match=r"one number, or two for reading and writing, got \[3\]"):
        SparseDense(IN, OUT, num_anchors=[3])


def test_other_features_than_a_layer_was_made_for():
    with pytest.raises(ShapeError, match=r"SparseConv expected features of shape \(N, 2, H, W\), got \(1, 3, 4, 4\)"):
        SparseConv(2, 3)(torch.zeros(1, 3, 4, 4))
    with pytest.raises(ShapeError, match="at least 3 pixels per side .*got 2×4"):
        SparseConv(2, 3, 7)(torch.zeros(1, 2, 2, 4))
    with pytest.raises(ShapeError, match="SparseConv expected channels and sides of 1 or more, got 2, 3, 0"):
        SparseConv(2, 3, 0)
    with pytest.raises(ShapeError, match="SparseDense expected channels and sides of 1 or more, got 0, 4, 5, 2, 3, 4"):
        SparseDense((0, 4, 5), OUT)
