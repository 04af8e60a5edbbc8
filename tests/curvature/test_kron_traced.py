"""KFAC with the partial traces of H: their definition by the full GGN, and exact wherever KFAC is."""

import pytest
import torch
from torch import nn

import covary
from cases import CASES, NUM_OUTPUTS, SINGLE_ROW_CASES, diagonal_blocks, targets
from covary.augment import Affine2d
from covary.curvature import full, kfac, tkfac
from covary.errors import StructureError
from covary.hypergrad import direct, two_pass
from covary.linalg import Kron
from oracles.curvature import ggn, loss_of, matrix_root, output_hessian, row_gradients


def partial_traces(block: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The traces over rows and over columns of the matrix of a weight (rows, columns), flattened."""
    entries = block.unflatten(1, (rows, -1)).unflatten(0, (rows, -1))
    return torch.einsum("gigj->ij", entries), torch.einsum("gihi->gh", entries)


def blocks_of(product: Kron) -> tuple[int, int]:
    """The number of blocks, and the number of rows of each."""
    num_blocks = max(len(factor) if factor.ndim == 3 else 1 for factor in product.tensors)
    return num_blocks, product.grad_cov.shape[-1]


@pytest.mark.parametrize("case", [case for case in SINGLE_ROW_CASES if case != "embedding"])
def test_with_one_row_a_datum_the_partial_traces_are_those_of_the_full_ggn(case):
    network, x = SINGLE_ROW_CASES[case].make(6)
    y = targets("categorical", 6)
    ours = tkfac(network, (x, y))
    oracle = ggn(network, x, loss_of("categorical", y))
    sizes = [p.numel() for p in network.parameters()]
    for name, dense in zip(ours.blocks, diagonal_blocks(oracle, sizes), strict=True):
        block = ours[name]
        if not isinstance(block, Kron):
            torch.testing.assert_close(block.to_dense(), dense, rtol=1e-9, atol=1e-12)
            continue
        num_blocks, rows = blocks_of(block)
        parts = zip(*(diagonal_blocks(m, [len(m) // num_blocks] * num_blocks) for m in (block.to_dense(), dense)),
                    strict=True)  # fmt: skip
        for mine, theirs in parts:
            for found, expected in zip(partial_traces(mine, rows), partial_traces(theirs, rows), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_the_partial_traces_of_a_table_are_those_of_the_full_ggn():
    """A table of V rows has V blocks of one row each beside a factor that all share."""
    network, x = SINGLE_ROW_CASES["embedding"].make(6)
    y = targets("categorical", 6)
    block = tkfac(network, (x, y))["0.weight"]
    dense = full(covary.Model(network).restricted(["0.weight"]), (x, y)).to_dense()
    assert [tuple(factor.shape) for factor in block.tensors] == [(2, 2), (5, 1, 1)]
    for found, expected in zip(partial_traces(block.to_dense(), 5), partial_traces(dense, 5), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_with_several_rows_a_datum_the_traces_are_not_those_of_h():
    """The control: products of different positions are in H, and in no sum over rows."""
    network, x = CASES["conv2d"].make(6)
    y = targets("categorical", 6)
    ours = tkfac(network, (x, y))["0.weight"].trace()
    exact = full(covary.Model(network).restricted(["0.weight"]), (x, y)).trace()
    assert abs(ours - exact) > 0.05 * exact


@pytest.mark.parametrize("approx", ["expand", "reduce"])
def test_convolution_factors_are_their_definition_by_loops(approx):
    torch.manual_seed(0)
    conv, head = nn.Conv2d(2, 3, 2), nn.Linear(27, NUM_OUTPUTS)
    network = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), head)
    x, y = torch.randn(3, 2, 4, 4), torch.randint(0, NUM_OUTPUTS, (3,))
    patches = torch.stack([x[:, :, i : i + 2, j : j + 2].flatten(1) for i in range(3) for j in range(3)], 1)
    outputs, layer_outputs = network(x).detach(), conv(x).flatten(2).transpose(1, 2).detach()
    one = nn.functional.cross_entropy
    roots = [matrix_root(output_hessian(lambda f, t=t: one(f, t), o)) for o, t in zip(outputs, y, strict=True)]
    gradients = row_gradients(layer_outputs, lambda z: head(torch.tanh(z).T.reshape(1, -1))[0], torch.stack(roots))
    if approx == "reduce":
        patches, gradients = patches.mean(1, keepdim=True), gradients.sum(2, keepdim=True)
    a, b, t = 0.0, 0.0, 0.0
    for n, r, k in torch.cartesian_prod(*(torch.arange(m) for m in (3, patches.shape[1], NUM_OUTPUTS))).tolist():
        row, gradient = patches[n, r], gradients[n, k, r]
        a = a + (gradient @ gradient) * torch.outer(row, row)
        b = b + (row @ row) * torch.outer(gradient, gradient)
        t = t + (row @ row) * (gradient @ gradient)
    ours = tkfac(network, (x, y), kfac_approx=approx)["0.weight"]
    torch.testing.assert_close(ours.to_dense(), torch.kron(b, a) / t, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", SINGLE_ROW_CASES)
def test_one_datum_with_one_row_is_exact(case):
    network, x = SINGLE_ROW_CASES[case].make(1)
    y = targets("categorical", 1)
    ours, plain = (curvature(network, (x, y)).to_dense() for curvature in (tkfac, kfac))
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-12)  # which is exact there, by its own test


@pytest.mark.parametrize("num_samples", [1, 4])
def test_an_averaged_linear_network_is_exact_for_any_number_of_samples(num_samples):
    augment = covary.augment.Rotation2d(initial_width=0.8)
    network = covary.Averaged(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, NUM_OUTPUTS)), augment, num_samples)
    x, y = torch.randn(5, 2), torch.randn(5, NUM_OUTPUTS)
    ours = tkfac(covary.Model(network, covary.Gaussian(0.5)), (x, y))
    names = list(ours.blocks)
    oracle = ggn(network, x, loss_of("gaussian", y, 0.5), names)
    for name, dense in zip(names, diagonal_blocks(oracle, [ours[n].size for n in names]), strict=True):
        torch.testing.assert_close(ours[name].to_dense(), dense, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_factors_of_batches_add_up_to_the_factors_of_the_whole(case):
    network, x = CASES[case].make(5)
    y = targets("categorical", 5)
    whole = tkfac(network, (x, y))
    first, second = (tkfac(network, (x[rows], y[rows])) for rows in (slice(2), slice(2, 5)))
    torch.testing.assert_close(first.accumulate(second).to_dense(), whole.to_dense(), rtol=1e-10, atol=1e-13)


def test_it_is_closer_where_large_inputs_have_small_curvature():
    """What training does to a network: inputs ten times as large lie where the outputs are certain."""
    torch.manual_seed(0)
    network = nn.Linear(4, NUM_OUTPUTS, bias=False)
    x = torch.cat([torch.randn(20, 4), 10 * torch.randn(20, 4)])
    y = network(x).argmax(1)
    exact = full(network, (x, y)).to_dense()
    ours, plain = (curvature(network, (x, y)) for curvature in (tkfac, kfac))
    torch.testing.assert_close(ours.trace(), exact.trace(), rtol=1e-10, atol=0)
    assert plain.trace() > 2 * exact.trace(), "else there is nothing to mend"
    eye = torch.eye(len(exact))
    errors = [abs((m.to_dense() + eye).logdet() - (exact + eye).logdet()) for m in (ours, plain)]
    assert errors[0] < 0.5 * errors[1]


def test_two_sets_are_the_cross_products_of_their_means():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Flatten(), nn.Linear(16, NUM_OUTPUTS))
    augment = Affine2d(("rotation", "shift_x"), initial_width=0.8)
    network = covary.Averaged(inner, augment, 6, num_sets=2)
    x, y = torch.randn(4, 1, 4, 4), targets("gaussian", 4)
    with torch.no_grad():
        block = tkfac(covary.Model(network, covary.Gaussian(1.0)), (x, y), seed=3)["network.1.weight"]
        samples = augment.transform(x, torch.cat(network._noise(torch.arange(4), 3), dim=1)).flatten(2)
    first, second = samples[:, :3].mean(1), samples[:, 3:].mean(1)
    # every column of the root is a unit vector: C of them have the squared length C
    cross = NUM_OUTPUTS * (first.T @ second + second.T @ first) / 2
    assert block.estimated
    torch.testing.assert_close(block.input_cov, cross, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(block.grad_cov, (first * second).sum() * torch.eye(NUM_OUTPUTS), rtol=1e-12, atol=1e-12)


def small_model(num_sets: int):
    """A small averaged network with its likelihood, prior and data."""
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(18, NUM_OUTPUTS))
    augment = Affine2d(("rotation", "shift_x"), initial_width=0.4)
    network = covary.Averaged(inner, augment, 6, num_sets=num_sets)
    data = torch.randn(7, 1, 4, 4), targets("categorical", 7)
    return network, covary.Categorical(), covary.Prior(network, precision=0.3), data


@pytest.mark.parametrize("num_sets", [1, 2])
def test_two_passes_equal_one_graph(num_sets):
    network, likelihood, prior, data = small_model(num_sets)
    gradient = two_pass(covary.Model(network, likelihood, prior), covary.as_batches(data, 3), "kron-traced")[
        "augment.raw_widths"
    ]
    once = direct(covary.Model(network, likelihood, prior), data, "kron-traced")["augment.raw_widths"]
    torch.testing.assert_close(gradient, once, rtol=1e-10, atol=1e-12)


def test_the_hyper_gradient_is_the_central_difference():
    network, likelihood, prior, data = small_model(1)
    gradient = two_pass(covary.Model(network, likelihood, prior), covary.as_batches(data, 3), "kron-traced")[
        "augment.raw_widths"
    ]
    widths = network.augment.raw_widths
    for i in range(len(widths)):
        ends = []
        for step in (1e-6, -1e-6):
            widths.data[i] += step
            ends.append(
                float(covary.log_evidence(covary.Model(network, likelihood, prior), data, "kron-traced").log_evidence)
            )
            widths.data[i] -= step
        assert float(gradient[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_statistics_of_the_two_kinds_do_not_join():
    network, x = CASES["linear"].make(3)
    y = targets("categorical", 3)
    ours, plain = (curvature(network, (x, y)) for curvature in (tkfac, kfac))
    with pytest.raises(StructureError, match=r"plain factors and partial traces.*same curvature"):
        ours.accumulate(plain)
