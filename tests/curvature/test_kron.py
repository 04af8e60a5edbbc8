"""KFAC: exact where it must be, its own definition by loops where it is not."""

import pytest
import torch
from torch import nn

import covary
from cases import CASES, NUM_OUTPUTS, SINGLE_ROW_CASES, diagonal_blocks, targets
from covary.curvature import full, kfac
from covary.curvature.ggn import ggn as ggn_of
from covary.linalg import Dense, Kron
from oracles.curvature import ggn, loss_of, matrix_root, output_hessian, shared_factors


def grouped_part(matrix: torch.Tensor, block: Kron) -> torch.Tensor:
    """The part of a dense block that a block-diagonal Kronecker product keeps."""
    groups = max(t.shape[0] if t.ndim == 3 else 1 for t in block.tensors)
    return torch.block_diag(*diagonal_blocks(matrix, [len(matrix) // groups] * groups))


@pytest.mark.parametrize("approx", ["expand", "reduce"])
@pytest.mark.parametrize("case", SINGLE_ROW_CASES)
def test_kfac_of_one_datum_and_one_row_is_exact(case, approx):
    network, x = SINGLE_ROW_CASES[case].make(1)
    y = targets("categorical", 1)
    ours = kfac(network, (x, y), kfac_approx=approx)
    oracle = ggn(network, x, loss_of("categorical", y))
    sizes = [p.numel() for p in network.parameters()]
    for name, dense in zip(ours.blocks, diagonal_blocks(oracle, sizes), strict=True):
        block = ours[name]
        expected = grouped_part(dense, block) if isinstance(block, Kron) else dense
        torch.testing.assert_close(block.to_dense(), expected, rtol=1e-9, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


def test_a_second_datum_makes_kfac_inexact():
    """The control: where KFAC is an approximation it must differ."""
    network, x = SINGLE_ROW_CASES["linear"].make(2)
    y = targets("categorical", 2)
    ours = kfac(network, (x, y))["0.weight"].to_dense()
    exact = full(covary.Model(network).restricted(["0.weight"]), (x, y)).to_dense()
    assert (ours - exact).norm() > 1e-3 * exact.norm()


class LinearTokens(nn.Module):
    """A deep linear network over tokens whose outputs are every token's (expand) or their mean (reduce)."""

    def __init__(self, pooled: bool) -> None:
        super().__init__()
        self.first, self.second, self.pooled = nn.Linear(3, 4), nn.Linear(4, 2), pooled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.second(self.first(x))
        return h.mean(1) if self.pooled else h.flatten(1)


@pytest.mark.parametrize("approx", ["expand", "reduce"])
def test_kfac_of_a_deep_linear_network_is_exact(approx):
    network = LinearTokens(pooled=approx == "reduce")
    x = torch.randn(5, 3, 3)
    y = network(x).detach()
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y), kfac_approx=approx)
    oracle = ggn(network, x, loss_of("gaussian", y, 0.5))
    sizes = [p.numel() for p in network.parameters()]
    for name, dense in zip(ours.blocks, diagonal_blocks(oracle, sizes), strict=True):
        torch.testing.assert_close(ours[name].to_dense(), dense, rtol=1e-9, atol=1e-12)
    other = kfac(
        covary.Model(network, covary.Gaussian(0.5)), (x, y), kfac_approx="expand" if approx == "reduce" else "reduce"
    )
    assert (other.to_dense() - ours.to_dense()).norm() > 1e-3 * ours.to_dense().norm()  # the control


@pytest.mark.parametrize("num_samples", [1, 4])
def test_kfac_of_an_averaged_linear_network_is_exact_for_any_number_of_samples(num_samples):
    augment = covary.augment.Rotation2d(initial_width=0.8)
    network = covary.Averaged(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, NUM_OUTPUTS)), augment, num_samples)
    x, y = torch.randn(5, 2), torch.randn(5, NUM_OUTPUTS)
    ours = kfac(covary.Model(network, covary.Gaussian(0.5)), (x, y))
    names = list(ours.blocks)
    oracle = ggn(network, x, loss_of("gaussian", y, 0.5), names)
    for name, dense in zip(names, diagonal_blocks(oracle, [ours[n].size for n in names]), strict=True):
        torch.testing.assert_close(ours[name].to_dense(), dense, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("approx", ["expand", "reduce"])
def test_convolution_factors_are_their_definition_by_loops(approx):
    torch.manual_seed(0)
    conv, head = nn.Conv2d(2, 3, 2, stride=1, padding=1, padding_mode="circular"), nn.Linear(3 * 25, NUM_OUTPUTS)
    network = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), head)
    x, y = torch.randn(3, 2, 4, 4), torch.randint(0, NUM_OUTPUTS, (3,))
    wrapped = torch.cat([x[:, :, -1:], x, x[:, :, :1]], 2)
    wrapped = torch.cat([wrapped[..., -1:], wrapped, wrapped[..., :1]], 3)
    patches = torch.stack(
        [wrapped[:, :, i : i + 2, j : j + 2].flatten(1) for i in range(5) for j in range(5)], 1
    )  # (N, R, D)
    layer_outputs = conv(x).flatten(2).transpose(1, 2).detach()  # (N, R, G)

    def tail(z: torch.Tensor) -> torch.Tensor:
        return head(torch.tanh(z).T.reshape(1, -1))[0]

    outputs = network(x).detach()
    one = nn.functional.cross_entropy
    roots = torch.stack(
        [matrix_root(output_hessian(lambda f, t=t: one(f, t), o)) for o, t in zip(outputs, y, strict=True)]
    )
    a, b, count = shared_factors(patches, (layer_outputs, tail), roots, approx)
    ours = kfac(network, (x, y), kfac_approx=approx)["0.weight"]
    torch.testing.assert_close(ours.to_dense(), torch.kron(b, a) / count, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_factors_of_batches_add_up_to_the_factors_of_the_whole(case):
    network, x = CASES[case].make(5)
    y = targets("categorical", 5)
    whole = kfac(network, (x, y))
    first, second = (kfac(network, (x[rows], y[rows])) for rows in (slice(2), slice(2, 5)))
    parts = first.accumulate(second)
    torch.testing.assert_close(
        parts.to_dense(), whole.to_dense(), rtol=1e-11, atol=1e-13, msg=lambda m, c=case: f"{c}: {m}"
    )


def test_the_order_of_the_data_does_not_matter():
    network, x = CASES["conv2d grouped"].make(5)
    y = targets("categorical", 5)
    first = kfac(network, (x, y)).to_dense()
    second = kfac(network, (x.flip(0), y.flip(0))).to_dense()
    torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("case", "name", "factor_shapes"),
    [
        ("conv2d grouped", "0.weight", [(2, 8, 8), (2, 3, 3)]),
        ("conv2d depthwise", "0.weight", [(3, 4, 4), (3, 1, 1)]),
        ("conv transpose grouped", "0.weight", [(2, 4, 4), (2, 2, 2)]),
        ("attention batch first", "attention.in_proj_weight", [(3, 4, 4), (3, 4, 4)]),
        ("embedding", "0.weight", [(2, 2), (5, 1, 1)]),
    ],
)
def test_groups_are_blocks_and_no_zero_between_them_is_stored(case, name, factor_shapes):
    network, x = CASES[case].make(3)
    block = kfac(network, (x, targets("categorical", 3)))[name]
    assert [tuple(t.shape) for t in block.tensors] == factor_shapes


def test_biases_and_norms_are_exact_blocks():
    network, x = CASES["group norm"].make(4)
    y = targets("categorical", 4)
    ours = kfac(network, (x, y))
    for name in ("0.bias", "1.weight", "1.bias", "4.bias"):
        assert isinstance(ours[name], Dense)
        exact = full(covary.Model(network).restricted([name]), (x, y)).to_dense()
        torch.testing.assert_close(ours[name].to_dense(), exact, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("num_sets", [1, 2])
@pytest.mark.parametrize("approx", ["expand", "reduce"])
@pytest.mark.parametrize("structure", ["kron", "kron-shared"])
@pytest.mark.parametrize("groups", [1, 2])
def test_biases_from_the_rows_of_their_weights_are_exact_blocks(groups, structure, approx, num_sets, generator):
    """Convolutions with one block and with two, whose bias is read from its own gradients."""
    inner = nn.Sequential(nn.Conv2d(2, 4, 3, groups=groups), nn.Tanh(), nn.Flatten(), nn.Linear(16, NUM_OUTPUTS))
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.3), 4, num_sets=num_sets)
    x, y = torch.randn(5, 2, 4, 4, generator=generator), targets("categorical", 5)
    ours = ggn_of(network, (x, y), covary.Curvature(structure, kfac_approx=approx))
    for name in ("network.0.bias", "network.3.bias"):
        exact = full(covary.Model(network).restricted([name]), (x, y)).to_dense()
        torch.testing.assert_close(ours[name].to_dense(), exact, rtol=1e-10, atol=1e-13)


def test_a_tied_embedding_gets_its_exact_block():
    network, x = CASES["tied embedding"].make(4)
    y = targets("categorical", 4)
    ours = kfac(network, (x, y))["embedding.weight"]
    exact = full(covary.Model(network).restricted(["embedding.weight"]), (x, y))
    torch.testing.assert_close(ours.to_dense(), exact.to_dense(), rtol=1e-10, atol=1e-13)


def test_weights_that_were_never_called_have_no_curvature():
    network, x = CASES["unused layers"].make(4)
    ours = kfac(network, (x, targets("categorical", 4)))
    assert list(ours.blocks) == [name for name, _ in network.named_parameters()]
    for name in ("wasted.weight", "never.weight", "never.bias"):
        assert ours[name].trace() == 0


@pytest.mark.parametrize("approx", ["expand", "reduce"])
def test_padding_counts_the_same_for_any_number_of_identical_samples(approx):
    class Copies(nn.Module):
        """An augmentation that changes nothing."""

        names, widths = ("none",), torch.zeros(1)

        def sample_noise(self, index: torch.Tensor, num_samples: int, *, seed: int) -> torch.Tensor:
            return torch.zeros(len(index), num_samples)

        def transform(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
            return x.unsqueeze(1).expand(-1, noise.shape[1], *x.shape[1:])

    torch.manual_seed(0)
    inner = nn.Sequential(nn.Embedding(4, 2, padding_idx=0), nn.Tanh(), nn.Flatten(), nn.Linear(6, NUM_OUTPUTS))
    tokens, y = torch.tensor([[0, 1, 2], [0, 3, 1]]), torch.tensor([0, 2])
    traces = [kfac(covary.Averaged(inner, Copies(), s), (tokens, y), kfac_approx=approx).trace() for s in (1, 2)]
    torch.testing.assert_close(traces[0], traces[1], rtol=1e-12, atol=0)
