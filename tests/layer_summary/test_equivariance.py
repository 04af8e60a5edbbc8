"""Equivariance errors: nought for layers that commute, the right number for one that does not."""

import pytest
import torch
from torch import nn

import covary
from covary.batches import as_batches
from covary.groups import P4
from covary.layer_summary import equivariance_errors, relaxed_layers
from covary.layer_summary import summary as layers
from covary.layer_summary.equivariance import layer_inputs
from covary.layers import Conv, Dense, FactoredDense, FixedFrame, GroupConv, PolyphasePool, Relaxed, SparseConv
from layer_summary.small import generator, noise, relaxed_pair
from training_models import PLAIN


def features(channels: int = 2, side: int = 6, num_data: int = 5) -> torch.Tensor:
    return torch.randn(num_data, channels, side, side, generator=generator(7))


def gconv(lift: bool = False, factorization: str = "full") -> GroupConv:
    return GroupConv(2, 3, group=P4, factorization=factorization, lift=lift, generator=generator(8))


def group_conv() -> FixedFrame:
    return FixedFrame(Conv(8, 12, generator=generator(9)), P4)


def dense(channels: int, out_channels: int, side: int, stride: int) -> Dense:
    return Dense((channels, side, side), (out_channels, side // stride, side // stride), generator=generator(10))


@pytest.mark.parametrize("stride", [1, 2, 3, 6])
@pytest.mark.parametrize("kind", [Conv, SparseConv])
def test_convolutions_commute_with_shifts_through_any_pool(kind, stride):
    layer = Relaxed({"conv": kind(2, 3, generator=generator(0))}, PolyphasePool(stride))
    errors = equivariance_errors(layer, features())
    assert errors.shift < 1e-12
    assert errors.turn is None


@pytest.mark.parametrize("stride", [1, 2, 6])
def test_a_dense_path_does_not(stride):
    paths = {"conv": Conv(2, 3, generator=generator(0)), "fc": dense(2, 3, 6, stride)}
    assert equivariance_errors(Relaxed(paths, PolyphasePool(stride)), features()).shift > 0.2


def test_a_bias_per_position_alone_breaks_it():
    layer = Relaxed({"conv": Conv(2, 3, generator=generator(0)), "fc": dense(2, 3, 6, 1)})
    layer.paths["fc"].weight.data.zero_()
    assert equivariance_errors(layer, features()).shift < 1e-12
    layer.paths["fc"].bias.data.copy_(torch.linspace(0, 1, 108))
    assert equivariance_errors(layer, features()).shift > 0.05


def test_the_error_falls_with_the_path_that_breaks_it():
    errors = []
    for scale in (1e-2, 1e-4):
        layer = Relaxed({"conv": Conv(2, 3, generator=generator(0)), "fc": dense(2, 3, 6, 1)})
        layer.paths["fc"].rescale_(scale)
        errors.append(equivariance_errors(layer, features()).shift)
    assert errors[0] == pytest.approx(100 * errors[1], rel=1e-2)


def test_the_number_is_the_relative_error_of_the_one_shift_there_is():
    x = torch.randn(4, 2, 1, 2, generator=generator(1))
    layer = Relaxed({"fc": Dense((2, 1, 2), (3, 1, 2), generator=generator(2))})
    with torch.no_grad():
        expected = (layer(x[..., [1, 0]]) - layer(x)[..., [1, 0]]).norm() / layer(x).norm()
    assert equivariance_errors(layer, x).shift == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("lift", [False, True])
@pytest.mark.parametrize("factorization", ["full", "pointwise"])
@pytest.mark.parametrize("stride", [1, 2])
def test_group_convolutions_commute_with_shifts_and_turns(lift, factorization, stride):
    layer = Relaxed({"gconv": gconv(lift, factorization)}, PolyphasePool(stride, P4))
    errors = equivariance_errors(layer, features(2 if lift else 8))
    assert errors.shift < 1e-12
    assert errors.turn < 1e-12


def test_a_plain_convolution_of_group_features_commutes_with_shifts_alone():
    errors = equivariance_errors(Relaxed({"gconv": gconv(), "conv": group_conv()}, PolyphasePool(2, P4)), features(8))
    assert errors.shift < 1e-12
    assert errors.turn > 0.2


def test_a_dense_path_of_group_features_commutes_with_neither():
    errors = equivariance_errors(Relaxed({"gconv": gconv(), "fc": dense(8, 12, 6, 1)}), features(8))
    assert errors.shift > 0.2
    assert errors.turn > 0.2


def test_one_position_leaves_nothing_to_shift():
    layer = Relaxed({"fc": Dense((2, 1, 1), (3, 1, 1), generator=generator(3))})
    assert equivariance_errors(layer, features(side=1)) == (None, None)


@pytest.mark.parametrize(
    ("before", "after"), [((5, 5), (2, 2)), ((2, 2), (4, 4)), ((4, 3), (2, 2)), ((3, 4), (2, 2)), ((1, 1), (2, 2))]
)
def test_grids_that_do_not_divide_have_no_shift_in_common(before, after):
    layer = Relaxed({"fc": Dense((2, *before), (3, *after), generator=generator(3))})
    assert equivariance_errors(layer, torch.randn(4, 2, *before, generator=generator(4))) == (None, None)


def test_grids_that_divide_along_each_side_have():
    layer = Relaxed({"fc": Dense((2, 4, 3), (3, 2, 3), generator=generator(3))})
    assert equivariance_errors(layer, torch.randn(4, 2, 4, 3, generator=generator(4))).shift > 0.2


def test_a_run_with_a_layer_that_makes_images_larger_is_summarized():
    shapes = (1, 2, 2), (2, 4, 4)
    layer = Relaxed({"fc": Dense(*shapes), "f-fc": FactoredDense(*shapes)})
    network = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    run = covary.fit(network, noise(side=2), PLAIN.replace(epochs=1, hyper={"burn_in": 0}), callbacks=())
    assert run.record.layers[0].shift_error is None


def test_shifts_are_a_function_of_the_seed():
    layer = Relaxed({"fc": dense(2, 3, 6, 1)})
    first, again, other = (equivariance_errors(layer, features(), seed=seed, num_shifts=1).shift for seed in (0, 0, 1))
    assert first == again != other


def test_inputs_are_what_each_layer_sees():
    network, (x, y) = relaxed_pair(), noise()
    seen = layer_inputs(network, next(iter(as_batches((x, y)))), relaxed_layers(network), 0)
    assert torch.equal(seen["0"], x)
    assert torch.equal(seen["2"], network[0](x).relu())
    assert not network[0]._forward_pre_hooks


@pytest.mark.parametrize("stride", [1, 2])
def test_a_layer_whose_group_paths_were_taken_out_is_still_over_the_group(stride):
    """Equal, to the last bit, to the errors of the whole layer with those paths at zero; with a pool and without."""
    paths = {"fc": dense(8, 12, 6, stride), "gconv": gconv()}
    layer = Relaxed(paths, None if stride == 1 else PolyphasePool(stride, P4))
    for parameter in paths["gconv"].parameters():
        nn.init.zeros_(parameter)
    whole = equivariance_errors(layer, features(8))
    del layer.paths["gconv"]
    assert equivariance_errors(layer, features(8)) == whole
    assert min(whole) > 0.2


def test_of_an_averaged_network_each_datum_counts_with_one_copy():
    augment = covary.augment.Affine2d(("rotation",), initial_width=0.3)
    network, (x, y) = covary.Averaged(relaxed_pair(), augment, 3), noise()
    seen = layer_inputs(network, next(iter(as_batches((x, y)))), relaxed_layers(network), 0)
    samples = augment.transform(x, augment.sample_noise(torch.arange(len(x)), 3, seed=0))
    assert torch.equal(seen["network.0"], samples[:, 0])
    assert seen["network.2"].shape[0] == len(x)


def test_a_summary_measures_on_as_many_images_with_samples_as_without(monkeypatch):
    numbers, errors = [], layers.equivariance_errors
    monkeypatch.setattr(
        layers, "equivariance_errors", lambda layer, rows, seed: (numbers.append(len(rows)), errors(layer, rows))[1]
    )
    for network in (relaxed_pair(), covary.Averaged(relaxed_pair(), covary.augment.Affine2d(), 2)):
        layers.summarize_layers(network, noise(100), "diag")
    assert numbers == [64] * 4
