"""The factored layer against the dense matrix it induces."""

import pytest
import torch

from covary.errors import ShapeError
from covary.groups import P4, cyclic
from covary.layers import FactoredDense
from covary.layers.factored import read_blocks, write_blocks
from oracles.layers import factored_map, factored_offset

# output larger than the inner features and smaller, few channels and many
SHAPES = [((3, 4, 2), (2, 3, 3)), ((5, 2, 1), (4, 1, 1)), ((1, 2, 2), (1, 2, 2))]


@pytest.mark.parametrize(("in_shape", "out_shape"), SHAPES)
def test_output_is_that_of_the_induced_matrix(in_shape, out_shape):
    layer, x = FactoredDense(in_shape, out_shape), torch.randn(6, *in_shape)
    with torch.no_grad():
        layer.read.bias.normal_()
        layer.write.bias.normal_()
    theta_2, theta_1 = layer.read.weight.transpose(0, 1), layer.write.weight.transpose(1, 2)  # (C', C, X), (C', C, X')
    expected = x.flatten(1) @ factored_map(theta_1, theta_2).T
    expected = expected + factored_offset(theta_1, layer.read.bias, layer.write.bias)
    torch.testing.assert_close(layer(x), expected.view(6, *out_shape))


@pytest.mark.parametrize("sizes", [(3, 5, 2), (3, 2, 5)])
def test_products_are_the_plain_sums_in_either_layout(sizes):
    channels, outputs, positions = sizes
    x, weight = torch.randn(4, channels, positions), torch.randn(channels, outputs, positions)
    torch.testing.assert_close(read_blocks(x, weight), torch.einsum("cgx,ncx->ngc", weight, x))
    z, weight = torch.randn(4, channels, outputs), torch.randn(channels, positions, outputs)
    torch.testing.assert_close(write_blocks(z, weight), torch.einsum("gxc,ngc->ngx", weight, z))


def test_gradient_and_its_gradient_exist():
    layer = FactoredDense((2, 2, 1), (3, 1, 1))
    x = torch.randn(2, 2, 2, 1, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, x)


def test_parameter_count():
    layer = FactoredDense((3, 32, 32), (10, 16, 16))
    assert sum(p.numel() for p in layer.parameters()) == 10 * 3 * (1024 + 256) + 10 + 256
    assert set(dict(layer.named_parameters())) == {"read.weight", "read.bias", "write.weight", "write.bias"}


def test_initial_second_moment_survives_a_relu(generator):
    layer = FactoredDense((16, 8, 8), (64, 4, 4), generator=generator)
    x = torch.randn(16, 16, 8, 8, generator=generator).relu()
    ratio = layer(x).relu().square().mean() / x.square().mean()
    assert abs(ratio.item() - 1) < 0.15  # a thousand pairs of channels: a few per cent of noise
    assert not layer.read.bias.any()
    assert not layer.write.bias.any()


def test_rescale_changes_the_last_stage_only():
    layer, x = FactoredDense((2, 3, 3), (3, 2, 2)), torch.randn(4, 2, 3, 3)
    with torch.no_grad():
        layer.write.bias.normal_()
    before, read = layer(x).detach(), layer.read.weight.detach().clone()
    layer.rescale_(0.3)
    torch.testing.assert_close(layer(x), 0.3 * before)
    assert torch.equal(layer.read.weight, read)


def test_features_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match="FactoredDense expected features of shape"):
        FactoredDense((2, 3, 3), (3, 2, 2))(torch.randn(4, 2, 3, 4))


def test_channels_that_are_not_slices_of_the_group():
    with pytest.raises(ShapeError, match=r"over quarter_turns expected 8 channels, 2 per element.*groups.lift"):
        FactoredDense((2, 4, 4), (3, 2, 2), group=P4)(torch.randn(5, 2, 4, 4))


def test_over_a_group_of_one_element_it_is_the_plain_layer():
    plain, over = FactoredDense((2, 3, 3), (3, 2, 2)), FactoredDense((2, 3, 3), (3, 2, 2), group=cyclic(1))
    over.load_state_dict(plain.state_dict())
    x = torch.randn(4, 2, 3, 3)
    assert torch.equal(over(x), plain(x))
