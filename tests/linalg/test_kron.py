"""Kronecker products: their order, their blocks, their count."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covary.errors import NotPositiveDefiniteError, ShapeError, StructureError
from covary.linalg import Dense, Diagonal, Kron
from oracles import linalg as oracle

from .structures import gram, normal
from .test_psd import EXACT

size = st.integers(1, 4)
blocks = st.sampled_from(["none", "input", "grad", "both"])


def factors(num_blocks: int, rows: int, columns: int, blocked: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    input_lead = (num_blocks,) if blocked in ("input", "both") else ()
    grad_lead = (num_blocks,) if blocked in ("grad", "both") else ()
    return gram(seed, *input_lead, columns, columns), gram(seed + 1, *grad_lead, rows, rows)


@given(num_blocks=size, rows=size, columns=size, blocked=blocks, seed=st.integers(0, 99))
def test_any_shape_agrees_with_its_entries(num_blocks: int, rows: int, columns: int, blocked: str, seed: int) -> None:
    input_cov, grad_cov = factors(num_blocks, rows, columns, blocked, seed)
    value = Kron(input_cov, grad_cov, 1.7)
    dense = oracle.block_kron(input_cov, grad_cov, 1.7)
    torch.testing.assert_close(value.to_dense(), dense, **EXACT)
    torch.testing.assert_close(value.logdet(0.3), oracle.logdet(dense, 0.3), **EXACT)
    vectors = normal(seed, 2, value.size)
    torch.testing.assert_close(value.matvec(vectors), vectors @ dense, **EXACT)
    torch.testing.assert_close(value.diagonal(), dense.diagonal(), **EXACT)


def test_order_is_that_of_a_flattened_weight() -> None:
    weight, input_cov, grad_cov = normal(0, 4, 3), gram(1, 3, 3), gram(2, 4, 4)
    product = Kron(input_cov, grad_cov).matvec(weight.flatten())
    torch.testing.assert_close(product.reshape(4, 3), grad_cov @ weight @ input_cov, **EXACT)
    other_order = torch.kron(input_cov, grad_cov) @ weight.flatten()
    assert not torch.allclose(product, other_order)


def test_accumulation_equals_one_pass() -> None:
    inputs, grads = normal(3, 10, 3), normal(4, 10, 2)

    def one_pass(rows: slice) -> Kron:
        a, b = inputs[rows], grads[rows]
        return Kron(a.mT @ a, b.mT @ b, len(a))

    halves, whole = one_pass(slice(0, 4)).accumulate(one_pass(slice(4, 10))), one_pass(slice(0, 10))
    torch.testing.assert_close(halves.to_dense(), whole.to_dense(), **EXACT)
    assert halves.count == 10
    summed = one_pass(slice(0, 4)).to_dense() + one_pass(slice(4, 10)).to_dense()
    assert not torch.allclose(summed, whole.to_dense())  # the matrices themselves do not add up


def test_sums_are_refused_with_an_alternative() -> None:
    kron = Kron(gram(5, 2, 2), gram(6, 2, 2))
    for left, right in ((kron, kron), (kron, Dense(gram(7, 4, 4))), (Diagonal(torch.ones(4)), kron)):
        with pytest.raises(TypeError, match=r"sum of two Kronecker products is not.*accumulate.*to_dense\(\)"):
            left + right


def test_a_shift_per_row_is_refused_with_an_alternative() -> None:
    kron = Kron(gram(5, 2, 2), gram(6, 2, 2), name="head")
    for call in (kron.logdet, kron.effective_dimension, kron.half_logdet_cotangents):
        with pytest.raises(StructureError, match=r"block 'head'.*no closed-form log-determinant.*scalar shift per"):
            call(torch.ones(4))
    with pytest.raises(StructureError, match="no closed-form"):
        kron.solve(torch.ones(4), torch.ones(4))


def test_no_data_is_the_zero_matrix() -> None:
    value = Kron(torch.zeros(2, 2), torch.zeros(3, 3), 0.0)
    assert value.to_dense().count_nonzero() == 0
    torch.testing.assert_close(value.logdet(2.0), 6 * torch.tensor(2.0).log())


def test_noise_cannot_cancel_the_trace_of_an_estimate() -> None:
    """Negative eigenvalues are set to zero in the trace too: otherwise a small trace would give a large matrix."""
    a, b = torch.diag(torch.tensor([1.0, -0.999])), torch.diag(torch.tensor([0.5, -0.499]))
    value = Kron(a, b, None, estimated=True)
    torch.testing.assert_close(value.logdet(1.0), torch.tensor(1.5).log())
    torch.testing.assert_close(Kron(-a, -b, None, estimated=True).logdet(1.0), torch.tensor(1.499).log())


def test_traces_too_small_to_divide_by_are_treated_as_no_data() -> None:
    """An inactive path in single precision: its partial traces are products of four tiny numbers."""
    tiny = 1e-30 * gram(5, 2, 2, 2).float()
    tiny[0] = gram(6, 2, 2).float()
    input_cov, grad_cov = (tiny.clone().requires_grad_() for _ in range(2))
    value = Kron(input_cov, grad_cov, None)
    logdet = value.logdet(2.0)
    alone = Kron(tiny[0], tiny[0], None).logdet(2.0)
    torch.testing.assert_close(logdet.detach(), alone + 4 * math.log(2.0))
    slopes = torch.autograd.grad(logdet, [input_cov, grad_cov])
    for slope, cotangent in zip(slopes, value.half_logdet_cotangents(2.0), strict=True):
        assert bool(slope.isfinite().all())
        torch.testing.assert_close(cotangent, slope / 2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("input_shape", "grad_shape", "message"),
    [
        ((2, 3), (2, 2), r"input_cov of block 'x' must have shape .*got \(2, 3\)"),
        ((2, 2), (4, 2, 3), r"grad_cov of block 'x' must have shape .*got \(4, 2, 3\)"),
        ((0, 2, 2), (3, 3), r"at least 1, got \(0, 2, 2\)"),
        ((2,), (3, 3), r"got \(2,\)"),
        ((2, 2, 2), (3, 3, 3), "same number of blocks, got 2 in input_cov and 3"),
        ((1, 2, 2), (3, 3, 3), "got 1 in input_cov and 3 in grad_cov"),
    ],
)
def test_wrong_shapes_are_refused(input_shape: tuple[int, ...], grad_shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Kron(torch.ones(input_shape), torch.ones(grad_shape), name="x")


@pytest.mark.parametrize("count", [-1.0, 0.0, float("nan")])
def test_invalid_counts_are_refused(count: float) -> None:
    with pytest.raises(StructureError, match="count of block 'x' must be"):
        Kron(torch.eye(2), torch.eye(2), count, name="x")


def test_errors_name_the_factor() -> None:
    with pytest.raises(NotPositiveDefiniteError, match=r"grad_cov of block 'x' to be .* is -1\.000e\+00"):
        Kron(torch.eye(2), torch.diag(torch.tensor([1.0, -1.0])), name="x").logdet(5.0)
    with pytest.raises(NotPositiveDefiniteError, match=r"input_cov of block 'x' must be finite; 1 are not"):
        Kron(torch.full((1, 1), torch.nan), torch.eye(2), name="x").logdet(5.0)


def test_accumulation_requires_equal_shapes() -> None:
    with pytest.raises(ShapeError, match="same shapes"):
        Kron(gram(0, 2, 2), gram(1, 3, 3)).accumulate(Kron(gram(0, 3, 3), gram(1, 2, 2)))
    with pytest.raises(StructureError, match="same structure, Kron, got Dense"):
        Kron(gram(0, 2, 2), gram(1, 3, 3)).accumulate(Dense(gram(2, 6, 6)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_factors_are_symmetric_up_to_absolute_rounding(dtype):
    """An inactive path has a factor of numbers below the smallest normal one; a run failed because of it."""
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    faint = torch.tensor([[4.0, 1.0], [2.0, 4.0]], dtype=dtype) * smallest
    assert faint[0, 1] != faint[1, 0]
    found = Kron(torch.eye(3, dtype=dtype), faint).logdet(2.0)
    torch.testing.assert_close(found, 6 * torch.tensor(2.0, dtype=dtype).log())
    with pytest.raises(StructureError, match="symmetric"):
        Kron(torch.eye(3, dtype=dtype), faint / smallest).logdet(2.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_factors_are_definite_up_to_absolute_rounding(dtype):
    """Each of many products is rounded by up to the smallest normal number; a run failed at an eigenvalue of -6e-36."""
    kind = torch.finfo(dtype)
    scale = 1e3 * kind.tiny / kind.eps**0.5
    faint = torch.tensor([[1.0, 1.01], [1.01, 1.0]], dtype=dtype) * scale
    assert torch.linalg.eigvalsh(faint.double() / scale).min() < -0.009
    found = Kron(torch.eye(3, dtype=dtype), faint).logdet(2.0)
    torch.testing.assert_close(found, 6 * torch.tensor(2.0, dtype=dtype).log())
    with pytest.raises(NotPositiveDefiniteError, match="below zero by more than rounding"):
        Kron(torch.eye(3, dtype=dtype), faint / scale).logdet(2.0)


def test_an_estimate_is_solved_without_its_negative_eigenvalues():
    """As its log-determinant has it; refined against its own products, solutions along them were too large."""
    vectors = torch.linalg.qr(torch.randn(3, 3))[0]
    grad_cov, right = torch.diag(torch.tensor([3.0, 0.5])), torch.randn(4, 6)

    def exact(first: torch.Tensor) -> torch.Tensor:
        clipped = first * torch.outer(vectors[:, 0], vectors[:, 0]) + torch.outer(vectors[:, 1], vectors[:, 1])
        return torch.linalg.solve(torch.kron(grad_cov, clipped) + 0.1 * torch.eye(6), right.T).T

    first = torch.tensor(2.0, requires_grad=True)
    below = torch.outer(vectors[:, 1], vectors[:, 1]) - 0.5 * torch.outer(vectors[:, 2], vectors[:, 2])
    value = Kron(first * torch.outer(vectors[:, 0], vectors[:, 0]) + below, grad_cov, estimated=True)
    found, wanted = value.solve(right, 0.1), exact(first)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(one.square().sum(), first) for one in (found, wanted)))
