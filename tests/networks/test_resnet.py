import math

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d

import covary
from covary.errors import ShapeError
from covary.networks import fixup_resnet
from covary.networks.resnet import FixupBlock
from oracles.curvature import ggn, loss_of


def num_params_by_hand(depth, width, num_channels, num_outputs):
    blocks, per_stage = 0, (depth - 2) // 6
    for stage in range(3):
        channels = width * 2**stage
        entered = channels if stage == 0 else channels // 2
        blocks += 9 * entered * channels + (2 * per_stage - 1) * 9 * channels**2 + 5 * per_stage
    return 9 * num_channels * width + 1 + blocks + 1 + (4 * width + 1) * num_outputs


def awake(network, generator):
    """The network with every weight drawn: zeros would hide mistakes."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.4, generator=generator)
    return network


@pytest.mark.parametrize(
    ("depth", "width", "num_channels", "num_outputs"), [(8, 16, 3, 10), (8, 8, 1, 10), (14, 2, 3, 4), (20, 1, 1, 2)]
)
def test_number_of_parameters(depth, width, num_channels, num_outputs):
    network = fixup_resnet(depth, width, num_channels, num_outputs)
    assert sum(p.numel() for p in network.parameters()) == num_params_by_hand(depth, width, num_channels, num_outputs)
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth


@pytest.mark.parametrize("size", [(32, 32), (28, 28), (7, 12), (1, 1)])
def test_images_of_any_size(size, generator):
    network = awake(fixup_resnet(8, 2, 1, 5), generator)
    assert network(torch.rand(3, 1, *size, generator=generator)).shape == (3, 5)


def test_starts_at_zero_outputs_and_blocks_that_pass_their_inputs_on(generator):
    network = fixup_resnet(14, 3, generator=generator)
    x = torch.rand(2, 3, 9, 9, generator=generator)
    assert torch.equal(network(x), torch.zeros(2, 10))
    blocks = [m for m in network if isinstance(m, FixupBlock)]
    features = torch.rand(2, 3, 9, 9, generator=generator)
    torch.testing.assert_close(blocks[0](features), features)
    narrowed = blocks[2](features)
    torch.testing.assert_close(narrowed[:, :3], features[..., ::2, ::2])
    assert not narrowed[:, 3:].any()
    # The control: what is passed on is no longer the input once a second convolution wakes.
    nn.init.ones_(blocks[0].second.weight)
    assert not torch.allclose(blocks[0](features), features)


def test_block_is_its_formula(generator):
    block = awake(FixupBlock(2, 4, 2), generator)
    x = torch.randn(3, 2, 6, 6, generator=generator)
    b1, b2, b3, b4 = (b.bias for b in (block.bias_1, block.bias_2, block.bias_3, block.bias_4))
    inner = torch.relu(conv2d(x + b1, block.first.weight, stride=2, padding=1) + b2)
    residual = block.scale.weight * conv2d(inner + b3, block.second.weight, padding=1) + b4
    shortcut = torch.zeros(3, 4, 3, 3)
    shortcut[:, :2] = (x + b1)[..., ::2, ::2]
    torch.testing.assert_close(block(x), torch.relu(shortcut + residual))


def test_initial_deviations(generator):
    network = fixup_resnet(14, 64, generator=generator)
    assert float(network[0].weight.detach().std()) == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)
    block = network[3]
    assert float(block.first.weight.detach().std()) == pytest.approx(math.sqrt(2 / (64 * 9)) * 6**-0.5, rel=0.05)


def test_weights_follow_the_generator_alone():
    first, same, other = (fixup_resnet(8, 2, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first[3].first.weight, same[3].first.weight)
    assert not torch.equal(first[3].first.weight, other[3].first.weight)


@pytest.mark.parametrize(("depth", "width"), [(2, 4), (9, 4), (-4, 4), (8, 0)])
def test_sizes_that_do_not_fit(depth, width):
    with pytest.raises(ShapeError, match=f"6n \\+ 2 .*got depth {depth} and width {width}"):
        fixup_resnet(depth, width)


def test_every_parameter_has_a_curvature_rule():
    table = covary.curvature.coverage(fixup_resnet(8, 2, 1, 3))
    assert table.by_autograd == ()
    # The control: a parameter without a rule is seen.
    unknown = fixup_resnet(8, 2, 1, 3)
    unknown.append(nn.PReLU())
    assert len(covary.curvature.coverage(unknown).by_autograd) == 1


def test_full_curvature_is_that_of_the_oracle(generator):
    network = awake(fixup_resnet(8, 1, 1, 3), generator)
    x, y = torch.rand(3, 1, 5, 5, generator=generator), torch.tensor([0, 2, 1])
    expected = ggn(network, x, loss_of("categorical", y))
    assert expected.abs().max() > 1e-3
    found = covary.curvature.full(network, (x, y)).to_dense()
    torch.testing.assert_close(found, expected)


def test_evidence_and_its_gradient(generator):
    inner = awake(fixup_resnet(8, 1, 1, 3), generator)
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.1), 2)
    likelihood, prior = covary.Categorical(), covary.Prior(network)
    data = torch.rand(4, 1, 6, 6, generator=generator), torch.tensor([0, 2, 1, 1])
    terms = covary.log_evidence(covary.Model(network, likelihood, prior), data)
    gradient = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), data, "kron")
    one_graph = covary.hypergrad.direct(covary.Model(network, likelihood, prior), data)
    assert terms.log_evidence.isfinite()
    assert gradient["augment.raw_widths"].abs().max() > 0
    for name, value in one_graph.items():
        torch.testing.assert_close(gradient[name], value)
