"""Curvature of sparse layers: projected factors of values, exact blocks of anchors and length-scales."""

import pytest
import torch
from torch import nn

import covary
from cases import NUM_OUTPUTS, diagonal_blocks, targets
from covary.curvature import coverage, diag, full, kfac
from covary.hypergrad import direct, two_pass
from covary.layers import SparseConv, SparseDense
from covary.linalg import Dense, Kron
from oracles.curvature import ggn, loss_of

IN = (2, 3, 3)


def deep(length_scale: str = "weight", activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(
        SparseConv(2, 3, length_scale=length_scale),
        activation(),
        SparseDense((3, 3, 3), (2, 2, 2), length_scale=length_scale),
        activation(),
        SparseConv(2, 2, num_anchors=3, length_scale=length_scale),
        nn.Flatten(),
        nn.Linear(8, NUM_OUTPUTS),
    )
    with torch.no_grad():  # away from the symmetric initial points, where derivatives cancel
        for name, parameter in network.named_parameters():
            parameter.add_((0.2 if name.endswith(("omega", "offsets")) else 0.5) * torch.randn(parameter.shape))
    return network


def assert_blocks_close(ours, oracle) -> None:
    names = list(ours.blocks)
    for name, dense in zip(names, diagonal_blocks(oracle, [ours[n].size for n in names]), strict=True):
        block = ours[name]
        if isinstance(block, Kron) and block.input_cov.ndim == 3:
            num_blocks = len(block.input_cov)
            dense = torch.block_diag(*diagonal_blocks(dense, [len(dense) // num_blocks] * num_blocks))
        torch.testing.assert_close(block.to_dense(), dense, rtol=1e-9, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("length_scale", ["fixed", "weight"])
def test_full_is_the_hessian_of_the_linearized_loss(length_scale):
    network, x, y = deep(length_scale), torch.randn(4, *IN), targets("categorical", 4)
    oracle = ggn(network, x, loss_of("categorical", y))
    torch.testing.assert_close(full(network, (x, y)).to_dense(), oracle, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(diag(network, (x, y)).diagonal(), oracle.diagonal())


def test_full_of_an_averaged_network():
    network = covary.Averaged(deep(), covary.augment.Affine2d(initial_width=0.3), 3)
    x, y = torch.randn(4, *IN), targets("categorical", 4)
    ours = full(network, (x, y)).to_dense()
    names = [f"network.{name}" for name, _ in network.network.named_parameters()]
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y), names), rtol=1e-9, atol=1e-12)


def test_anchors_and_length_scales_have_exact_blocks():
    network, x, y = deep(), torch.randn(6, *IN), targets("categorical", 6)
    ours = kfac(network, (x, y))
    oracle = ggn(network, x, loss_of("categorical", y))
    small = {name: block for name, block in ours.blocks.items() if name.endswith(("offsets", "omega", "bias"))}
    assert len(small) == 12
    assert all(isinstance(block, Dense) for block in small.values())
    sizes = [ours[name].size for name in ours.blocks]
    for name, dense in zip(ours.blocks, diagonal_blocks(oracle, sizes), strict=True):
        if name in small:
            torch.testing.assert_close(ours[name].to_dense(), dense, rtol=1e-9, atol=1e-12)


def test_many_anchors_get_a_diagonal_block():
    network = nn.Sequential(SparseDense((1, 46, 46), (1, 1, 1)), nn.Flatten())
    structures = {row.name: row.structure for row in coverage(network).rows}
    assert structures["0.read.offsets"] == "diagonal"  # 2 · 1058 entries
    assert structures["0.write.offsets"] == "dense"


def test_kfac_of_one_datum_is_exact_block_by_block():
    """One pixel is one row of a convolution; a stage of a dense layer always has one."""
    torch.manual_seed(0)
    network = nn.Sequential(
        SparseDense(IN, (3, 1, 1), length_scale="weight"),
        nn.Tanh(),
        SparseConv(3, 2, length_scale="weight"),
        nn.Tanh(),
        SparseDense((2, 1, 1), (2, 2, 2)),
        nn.Flatten(),
        nn.Linear(8, NUM_OUTPUTS),
    )
    x, y = torch.randn(1, *IN), targets("categorical", 1)
    oracle = ggn(network, x, loss_of("categorical", y))
    assert_blocks_close(kfac(network, (x, y)), oracle)


@pytest.mark.parametrize("num_samples", [1, 3])
def test_kfac_of_a_deep_linear_network_is_exact(num_samples):
    """The convolution's outputs are the network's, so that expanding over positions is exact."""
    torch.manual_seed(0)
    inner = nn.Sequential(SparseDense(IN, (2, 3, 2)), SparseConv(2, 2), nn.Flatten())
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.3), num_samples)
    x, y = torch.randn(5, *IN), torch.randn(5, 12)
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y))
    assert_blocks_close(ours, ggn(network, x, loss_of("gaussian", y, 0.5), list(ours.blocks)))
    reduced = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y), kfac_approx="reduce")
    with pytest.raises(AssertionError):  # the control
        assert_blocks_close(reduced, ggn(network, x, loss_of("gaussian", y, 0.5), list(ours.blocks)))


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_gradient_of_a_length_scale(curvature):
    """Two passes, one graph and central differences give the same gradient in ω."""
    network, likelihood = deep("hyperparameter"), covary.Categorical()
    prior = covary.Prior(network, precision=0.7)
    data = (torch.randn(5, *IN), targets("categorical", 5))
    one = direct(covary.Model(network, likelihood, prior), data, curvature)
    two = two_pass(covary.Model(network, likelihood, prior), covary.as_batches(data, 2), curvature)
    names = [name for name, _ in network.named_parameters() if name.endswith("omega")]
    assert len(names) == 4
    for name in names:
        found = central_difference(network, name, likelihood, prior, data, curvature)
        assert abs(found) > 1e-3
        torch.testing.assert_close(two[name], one[name], rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(two[name], torch.tensor([found]), rtol=1e-5, atol=1e-7)


def central_difference(network, name, likelihood, prior, data, curvature, step: float = 1e-5) -> float:
    parameter, values = network.get_parameter(name), []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.add_(sign * step)
        values.append(
            float(covary.log_evidence(covary.Model(network, likelihood, prior), data, curvature).log_evidence)
        )
        with torch.no_grad():
            parameter.sub_(sign * step)
    return (values[0] - values[1]) / (2 * step)
