"""Curvature of group convolutions: exact products, and the cases in which Kronecker factors are exact."""

import pytest
import torch
from torch import nn

import covary
from cases import diagonal_blocks
from covary.augment import FiniteGroup
from covary.curvature import full, kfac
from covary.curvature.rules.group import group_stage
from covary.groups import P4, P4M, cyclic
from covary.layers import Conv, GroupConv, GroupPool
from oracles.curvature import ggn, loss_of

FACTORIZATIONS = ("full", "separable", "depthwise", "pointwise")
GROUPS = {"P4": P4, "P4M": P4M, "cyclic": cyclic(3)}


def randomize(module, generator):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return module


def network_over(over, factorization, generator, side=3):
    layers = [
        GroupConv(1, 2, side, group=over, factorization=factorization, lift=True),
        nn.Tanh(),
        GroupConv(2, 2, side, group=over, factorization=factorization),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d(1),
        GroupConv(2, 3, 1, group=over, factorization="pointwise"),
        GroupPool(over),
        nn.Flatten(),
    ]
    return randomize(nn.Sequential(*layers), generator)


def batch(num_data, generator, side=4):
    x = torch.randn(num_data, 1, side, side, generator=generator)
    return x, torch.randint(0, 3, (num_data,), generator=generator)


def blocks_of(matrix, block):
    return dict(zip(block.blocks, diagonal_blocks(matrix, [part.size for part in block.blocks.values()]), strict=True))


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
@pytest.mark.parametrize("name", GROUPS)
def test_full_is_the_hessian_of_the_linearized_loss(name, factorization, generator):
    network, (x, y) = network_over(GROUPS[name], factorization, generator), batch(2, generator)
    ours = full(network, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("side", [2, 3])  # the layer treats even sides differently
def test_full_of_an_averaged_network(side, generator):
    inner, (x, y) = network_over(P4, "full", generator, side), batch(2, generator)
    network = covary.Averaged(inner, FiniteGroup("flips", 0.2), 4)
    ours = full(network, (x, y))
    names = [name for name, _ in network.named_parameters() if name.startswith("network.")]
    oracle = ggn(network, x, loss_of("categorical", y), names)
    torch.testing.assert_close(ours.to_dense(), oracle, rtol=1e-9, atol=1e-12)


def test_kfac_of_pointwise_layers_is_that_of_the_plain_network_averaged_over_turned_inputs(generator):
    """The group axis of paper 2 is the sample axis of paper 1."""
    over = dict(group=P4, factorization="pointwise")
    layers = [GroupConv(1, 3, lift=True, **over), nn.ReLU(), GroupConv(3, 4, **over), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), GroupConv(4, 3, 1, **over), GroupPool(P4), nn.Flatten()]
    network = randomize(nn.Sequential(*layers), generator)
    plain = nn.Sequential(
        Conv(1, 3), nn.ReLU(), Conv(3, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), Conv(4, 3, 1), nn.Flatten()
    )
    plain.load_state_dict(dict(zip(plain.state_dict(), network.state_dict().values(), strict=True)))
    averaged = covary.Averaged(plain, FiniteGroup("quarter_turns", 1 / 4), 4)
    x, y = batch(5, generator)
    torch.testing.assert_close(network(x), averaged(x), rtol=0, atol=1e-12)
    for structure in (kfac, full):
        ours, theirs = (structure(f, (x, y)) for f in (network, averaged))
        torch.testing.assert_close(ours.to_dense(), theirs.to_dense(), rtol=1e-10, atol=1e-13)
    ours = kfac(network, (x, y))
    expanded = kfac(network, (x, y), group_approx="expand")
    difference = expanded["0.stages.kernel.weight"].to_dense() - ours["0.stages.kernel.weight"].to_dense()
    assert difference.norm() > 1e-2 * ours["0.stages.kernel.weight"].to_dense().norm()  # the control


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_factors_by_loops_over_elements(factorization, generator):
    """The mean of a and the sum of g over elements, taken before unfolding, are those of the rows one by one."""
    layer = randomize(GroupConv(2, 3, group=P4M, factorization=factorization), generator)
    for stage in layer.stages:
        features = torch.randn(2, 3, stage.filter.in_channels * 8, 4, 4, generator=generator)
        gradient = torch.randn(2, 3, stage.filter.out_channels * 8, 4, 4, generator=generator)
        factors = group_stage(stage, features)["weight"]
        rows, sums = factors.averaged_inputs(merge=False), factors.summed_gradients(gradient, merge=False)
        assert rows.shape[1] == sums.shape[1] == 8 * 16
        mean = torch.stack([rows[:, 16 * h : 16 * h + 16] for h in range(8)]).mean(0)
        total = torch.stack([sums[:, 16 * h : 16 * h + 16] for h in range(8)]).sum(0)
        torch.testing.assert_close(factors.averaged_inputs(), mean, rtol=0, atol=1e-12)
        torch.testing.assert_close(factors.summed_gradients(gradient), total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_kfac_is_exact_for_one_datum_one_element_and_one_position(factorization, generator):
    network, (x, y) = network_over(cyclic(1), factorization, generator), batch(1, generator, side=1)
    ours = kfac(network, (x, y))
    oracle = blocks_of(ggn(network, x, loss_of("categorical", y)), ours)
    for name, block in ours.blocks.items():
        exact = oracle[name]
        if block.tensors[0].ndim == 3:  # channel by channel: blocks are exact, entries between them are omitted
            exact = torch.block_diag(*diagonal_blocks(exact, [len(exact) // 2] * 2))
        torch.testing.assert_close(block.to_dense(), exact, rtol=1e-9, atol=1e-12)


def linear_network(factorization, pooled, generator):
    last = [GroupPool(P4), nn.Flatten()] if pooled else [nn.Flatten()]
    layers = [GroupConv(channels, 2, 1, group=P4, factorization=factorization) for channels in (3, 2)]
    return randomize(nn.Sequential(*layers, *last), generator)


@pytest.mark.parametrize(
    ("factorization", "approx"), [("full", "reduce"), ("pointwise", "reduce"), ("pointwise", "expand")]
)
def test_kfac_of_a_deep_linear_network_is_exact(factorization, approx, generator):
    """Reduce if outputs are means over the group, expand if every slice is an output."""
    network = linear_network(factorization, approx == "reduce", generator)
    x = torch.randn(5, 12, 1, 1, generator=generator)
    y = network(x).detach()
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y), group_approx=approx)
    for name, exact in blocks_of(ggn(network, x, loss_of("gaussian", y, 0.5)), ours).items():
        torch.testing.assert_close(ours[name].to_dense(), exact, rtol=1e-9, atol=1e-12)
    other = kfac(
        covary.Model(network, covary.Gaussian(0.5)), (x, y), group_approx="expand" if approx == "reduce" else "reduce"
    )
    assert (other.to_dense() - ours.to_dense()).norm() > 1e-3 * ours.to_dense().norm()  # the control


def test_factors_of_channelwise_stages_are_blocks(generator):
    network, (x, y) = network_over(P4, "depthwise", generator), batch(3, generator)
    ours = kfac(network, (x, y))
    shapes = {name: [tuple(t.shape) for t in ours[f"2.stages.{name}.weight"].tensors] for name in ("spatial", "turns")}
    assert shapes == {"spatial": [(2, 9, 9), (2, 1, 1)], "turns": [(2, 4, 4), (2, 1, 1)]}


def test_biases_are_exact(generator):
    network, (x, y) = network_over(P4, "separable", generator), batch(3, generator)
    ours = kfac(network, (x, y))
    for name in (name for name in ours.blocks if name.endswith("bias")):
        exact = full(covary.Model(network).restricted([name]), (x, y)).to_dense()
        torch.testing.assert_close(ours[name].to_dense(), exact, rtol=1e-10, atol=1e-13)


def test_factors_of_batches_add_up(generator):
    network, (x, y) = network_over(P4, "full", generator), batch(5, generator)
    whole = kfac(network, (x, y))
    parts = [kfac(network, (x[rows], y[rows])) for rows in (slice(2), slice(2, 5))]
    torch.testing.assert_close(parts[0].accumulate(parts[1]).to_dense(), whole.to_dense(), rtol=1e-11, atol=1e-13)


def test_curvature_is_differentiable_in_the_weights(generator):
    """The hyper-gradient needs derivatives of the factors, through the layer's backward pass."""
    network, (x, y) = network_over(P4, "full", generator), batch(2, generator)
    weight = network[0].stages.kernel.weight
    kfac(network, (x, y)).trace().backward()
    found, step, direction = weight.grad, 1e-5, torch.randn(weight.shape, generator=generator)
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * step * direction
            values.append(kfac(network, (x, y)).trace())
            weight -= sign * step * direction
    central = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close((found * direction).sum(), central, rtol=1e-6, atol=1e-8)
