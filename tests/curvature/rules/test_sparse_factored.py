"""Curvature of dense and factored layers: exact cases, and one block per channel."""

import pytest
import torch
from torch import nn

import covary
from cases import NUM_OUTPUTS, diagonal_blocks, targets
from covary.curvature import Curvature, diag, full, kfac
from covary.curvature.ggn import ggn as structured_ggn
from covary.layers import Conv, Dense, FactoredDense
from covary.linalg import Kron
from oracles.curvature import ggn, loss_of

IN = (2, 3, 3)


def deep(activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    """Several such layers, one with a single channel, whose bias shares the weight's factor."""
    torch.manual_seed(0)
    network = nn.Sequential(
        FactoredDense(IN, (3, 2, 2)),
        activation(),
        FactoredDense((3, 2, 2), (1, 2, 1)),
        activation(),
        FactoredDense((1, 2, 1), (2, 1, 2)),
        activation(),
        Dense((2, 1, 2), (NUM_OUTPUTS, 1, 1)),
        nn.Flatten(),
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.7)
    return network


def block_diagonal(matrix: torch.Tensor, block: Kron) -> torch.Tensor:
    """The diagonal blocks of a dense matrix, one per channel."""
    num_blocks = max(len(t) if t.ndim == 3 else 1 for t in block.tensors)
    return torch.block_diag(*diagonal_blocks(matrix, [len(matrix) // num_blocks] * num_blocks))


def assert_blocks_close(ours, oracle) -> None:
    names = list(ours.blocks)
    for name, dense in zip(names, diagonal_blocks(oracle, [ours[n].size for n in names]), strict=True):
        expected = block_diagonal(dense, ours[name]) if isinstance(ours[name], Kron) else dense
        torch.testing.assert_close(
            ours[name].to_dense(), expected, rtol=1e-9, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_full_is_the_hessian_of_the_linearized_loss():
    network, x, y = deep(), torch.randn(4, *IN), targets("categorical", 4)
    oracle = ggn(network, x, loss_of("categorical", y))
    torch.testing.assert_close(full(network, (x, y)).to_dense(), oracle, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(diag(network, (x, y)).diagonal(), oracle.diagonal())


def test_full_of_an_averaged_network():
    network = covary.Averaged(deep(), covary.augment.Affine2d(initial_width=0.3), 3)
    x, y = torch.randn(4, *IN), targets("categorical", 4)
    ours = full(network, (x, y)).to_dense()
    names = list(kfac(network, (x, y)).blocks)
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y), names), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("common", [False, True])
def test_kfac_of_one_datum_is_exact_block_by_block(common):
    network, x, y = deep(), torch.randn(1, *IN), targets("categorical", 1)
    ours = structured_ggn(network, (x, y), Curvature("kron-shared" if common else "kron"))
    oracle = ggn(network, x, loss_of("categorical", y))
    if not common:
        assert_blocks_close(ours, oracle)
        return
    with pytest.raises(AssertionError):  # the control: the mean over channels is not each channel's
        assert_blocks_close(ours, oracle)


@pytest.mark.parametrize("num_samples", [1, 3])
def test_kfac_of_a_deep_linear_network_is_exact(num_samples):
    augment = covary.augment.Affine2d(initial_width=0.3)
    network = covary.Averaged(deep(nn.Identity), augment, num_samples)
    x, y = torch.randn(5, *IN), torch.randn(5, NUM_OUTPUTS)
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y))
    assert_blocks_close(ours, ggn(network, x, loss_of("gaussian", y, 0.5), list(ours.blocks)))


def test_a_second_datum_makes_kfac_inexact():
    network, x, y = deep(), torch.randn(2, *IN), targets("categorical", 2)
    ours = kfac(network, (x, y))
    with pytest.raises(AssertionError):
        assert_blocks_close(ours, ggn(network, x, loss_of("categorical", y)))


def test_factors_have_one_block_per_channel_and_count_data():
    network = nn.Sequential(FactoredDense((3, 4, 4), (5, 2, 2)), nn.Flatten(), nn.Linear(20, NUM_OUTPUTS))
    x, y = torch.randn(7, 3, 4, 4), targets("categorical", 7)
    own = kfac(network, (x, y))
    common = structured_ggn(network, (x, y), Curvature("kron-shared"))
    read, write = own["0.read.weight"], own["0.write.weight"]
    assert [tuple(t.shape) for t in read.tensors] == [(3, 16, 16), (3, 5, 5)]
    assert [tuple(t.shape) for t in write.tensors] == [(5, 3, 3), (5, 4, 4)]
    assert float(read.count) == float(write.count) == 7
    for name in ("0.read.weight", "0.write.weight"):
        assert torch.equal(common[name].input_cov, own[name].input_cov)
        torch.testing.assert_close(common[name].grad_cov, own[name].grad_cov.sum(0))
        assert float(common[name].count) == 7 * len(own[name].grad_cov)
    torch.testing.assert_close(common["2.weight"].to_dense(), own["2.weight"].to_dense())


def test_common_gradients_of_a_grouped_convolution_count_every_group():
    network = nn.Sequential(nn.Conv2d(4, 6, 2, groups=2), nn.Flatten(), nn.Linear(24, NUM_OUTPUTS))
    x, y = torch.randn(3, 4, 3, 3), targets("categorical", 3)
    for approx, rows in (("expand", 4), ("reduce", 1)):
        own = kfac(network, (x, y), kfac_approx=approx)["0.weight"]
        common = structured_ggn(network, (x, y), Curvature("kron-shared", kfac_approx=approx))["0.weight"]
        torch.testing.assert_close(common.grad_cov, own.grad_cov.sum(0))
        assert float(common.count) == 2 * float(own.count) == 2 * 3 * rows


def unequal(seed: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network on channels of different size, as features behind a few layers are."""
    noise = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        FactoredDense((4, 3, 3), (4, 2, 2), generator=noise), nn.Tanh(), nn.Flatten(), nn.Linear(16, NUM_OUTPUTS)
    )
    with torch.no_grad():
        network[3].weight.normal_(generator=noise)
        network[3].weight.mul_(torch.tensor([1.0, 0.3, 3.0, 0.1]).repeat_interleave(4))
        network[0].write.weight.mul_(torch.tensor([1.0, 3.0, 0.3, 0.1]))
    x = torch.randn(40, 4, 3, 3, generator=noise) * torch.tensor([0.1, 1.0, 0.3, 3.0])[:, None, None]
    return network, x, torch.randint(0, NUM_OUTPUTS, (40,), generator=noise)


@pytest.mark.parametrize("name", ["0.read.weight", "0.write.weight"])
def test_separate_gradient_factors_are_much_closer_to_the_exact_blocks_than_common_ones(name):
    """Relative errors against the exact blocks, over the seeds: 0.57–0.77 against 2.4–5.0, 0.15–0.28 against 1.0."""
    for seed in range(3):
        network, x, y = unequal(seed)
        exact = full(covary.Model(network).restricted([name]), (x, y)).to_dense()
        own, common = [
            structured_ggn(
                covary.Model(network).restricted([name]), (x, y), Curvature("kron-shared" if common else "kron")
            )[name]
            for common in (False, True)
        ]
        kept = block_diagonal(exact, own)
        errors = [float((block.to_dense() - kept).detach().norm() / kept.detach().norm()) for block in (own, common)]
        assert errors[0] < 0.5 * errors[1]


def test_covarys_convolution_has_the_rule_of_torchs():
    network = nn.Sequential(Conv(2, 3), nn.Tanh(), Conv(3, 2), nn.Flatten(), nn.Linear(18, NUM_OUTPUTS))
    x, y = torch.randn(3, *IN), targets("categorical", 3)
    ours = full(network, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(network, x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)
