"""Krylov spaces, top eigenvalues and log-determinants against dense decompositions, bounds against what they bound."""

import pytest
import torch

from covary.errors import DataError, NotPositiveDefiniteError
from covary.geometry import MatrixFree, estimate_log_det, top_eigenvalues
from covary.geometry.estimators.estimate import accuracy
from covary.geometry.estimators.krylov import _bracket, krylov


def operator(matrix):
    return MatrixFree(lambda vectors: vectors @ matrix, len(matrix), matrix.dtype)


def symmetric(size, generator):
    root = torch.randn(size, size, generator=generator)
    return root + root.T


@pytest.mark.parametrize("block_size", [1, 3])
def test_the_lanczos_relation(block_size, generator):
    matrix = symmetric(40, generator)
    block = torch.randn(block_size, 40, generator=generator)
    space = krylov(operator(matrix), block, 6)
    basis, size = space.basis, 6 * block_size
    torch.testing.assert_close(basis @ basis.T, torch.eye(size), rtol=0, atol=1e-13)
    torch.testing.assert_close(basis @ matrix @ basis.T, space.projection, rtol=0, atol=1e-12)
    torch.testing.assert_close(block.T, basis[:block_size].T @ space.start)
    outside = matrix @ basis.T - basis.T @ space.projection
    torch.testing.assert_close(outside[:, :-block_size], torch.zeros(40, size - block_size), rtol=0, atol=1e-12)
    added, remainder = outside[:, -block_size:], space.remainder
    torch.testing.assert_close(added.T @ added, remainder.T @ remainder)


def test_the_top_of_a_spectrum_with_multiples(generator):
    values = torch.cat([torch.tensor([5.0, 5.0, 5.0, 3.0]), torch.linspace(-2, 1, 96)])
    basis = torch.linalg.qr(torch.randn(100, 100, generator=generator))[0]
    matrix = operator((basis * values) @ basis.T)
    found = top_eigenvalues(matrix, 4, num_steps=12)
    torch.testing.assert_close(found.value, values[:4], rtol=1e-9, atol=0)
    assert bool(((found.value - values[:4]).abs() <= found.error).all())
    # a control: one row finds a multiple eigenvalue once
    single = top_eigenvalues(matrix, 4, num_steps=15, block_size=1)
    torch.testing.assert_close(single.value[:2], torch.tensor([5.0, 3.0]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("num_steps", [2, 4, 8])
@pytest.mark.parametrize("decay", ["semicircle", "power"])
def test_errors_hold_long_before_convergence(decay, num_steps, generator):
    matrix = symmetric(150, generator)
    if decay == "power":
        vectors = torch.linalg.eigh(matrix)[1]
        matrix = (vectors / torch.arange(1.0, 151.0)) @ vectors.T
    truth = torch.linalg.eigvalsh(matrix).flip(0)[:3]
    found = [top_eigenvalues(operator(matrix), 3, num_steps=num_steps, seed=seed) for seed in range(100)]
    assert accuracy(found, truth).num_covered >= 90
    for estimate in found:  # a compression has lower eigenvalues than the whole
        assert bool((estimate.value <= truth * (1 + 1e-12)).all())


def test_a_space_that_is_full_or_exhausted(generator):
    """The eigenvalues of the identity and of zero, whose Krylov spaces end at once, and of a matrix in full."""
    for matrix in (torch.eye(12), torch.zeros(12, 12), symmetric(12, generator)):
        found = top_eigenvalues(operator(matrix), 3, num_steps=9)
        assert found.num_products == 12
        torch.testing.assert_close(found.value, torch.linalg.eigvalsh(matrix).flip(0)[:3], rtol=0, atol=1e-12)


def test_the_seed_decides_the_eigenvalues(generator):
    matrix = operator(symmetric(60, generator))
    first, again, other = (top_eigenvalues(matrix, 2, num_steps=2, seed=s).value for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("num", "num_steps", "block_size"), [(0, 4, None), (13, 4, None), (2, 0, None), (2, 1, None), (3, 2, 2)]
)
def test_impossible_numbers(num, num_steps, block_size):
    with pytest.raises(DataError, match="steps"):
        top_eigenvalues(operator(torch.eye(12)), num, num_steps=num_steps, block_size=block_size)


def semi_definite(size, rank, generator):
    """A matrix of some rank whose eigenvalues fall over five orders of magnitude."""
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator))[0][:, :rank]
    return (basis * torch.logspace(3, -2, rank)) @ basis.T


def log_det(matrix, damping):
    return torch.linalg.slogdet(torch.eye(len(matrix)) + matrix / damping)[1]


@pytest.mark.parametrize("damping", [0.01, 1, 30.0])
@pytest.mark.parametrize("num_steps", [1, 2, 4, 8])
def test_the_bounds_hold_at_every_step(num_steps, damping, generator):
    """Σ sᵀf(A)s is between the bounds, for the block and for all of the Krylov space."""
    matrix = semi_definite(80, 50, generator)
    block = torch.randn(3, 80, generator=generator)
    values, vectors = torch.linalg.eigh(matrix)
    function = (vectors * (values.clamp_min(0) / damping).log1p()) @ vectors.T
    space = krylov(operator(matrix), block, num_steps)
    for start, rows in ((space.start, block), (torch.eye(3 * num_steps), space.basis)):
        bracket, truth = _bracket(space, start, damping), torch.einsum("kp,pq,kq->", rows, function, rows)
        assert bracket.lower <= truth * (1 + 1e-9)
        assert truth <= bracket.upper * (1 + 1e-9)
        # a control: before convergence neither bound is the truth
        assert num_steps > 2 or bracket.lower * 1.0001 < truth < bracket.upper / 1.0001


def test_the_bounds_hold_in_single_precision(generator):
    """Rounding is above the small eigenvalues here; bounds that divided by it were once twice the truth."""
    values = torch.cat([torch.logspace(4, 0, 60), torch.logspace(0, -4, 340)])
    basis = torch.linalg.qr(torch.randn(400, 400, generator=generator))[0]
    matrix = (basis * values) @ basis.T
    block = torch.randn(2, 400, generator=generator)
    truth = (block @ basis).square().sum(0) @ values.log1p()
    single = matrix.float()
    for num_steps in (5, 15, 40):
        space = krylov(operator(single), block.float(), num_steps)
        bracket = _bracket(space, space.start, 1.0)
        assert bracket.lower <= truth * (1 + 1e-4)
        assert truth <= bracket.upper * (1 + 1e-4)
    assert bracket.upper - bracket.lower < 0.01 * truth


def test_the_squared_norm_is_that_of_the_products(generator):
    matrix = semi_definite(40, 40, generator)
    block = torch.randn(4, 40, generator=generator)
    values, vectors = torch.linalg.eigh(matrix)
    function = (vectors * values.log1p()) @ vectors.T
    space = krylov(operator(matrix), block, 10)
    torch.testing.assert_close(_bracket(space, space.start, 1.0).squared_norm, (block @ function).square().sum())


@pytest.mark.parametrize("damping", [0.1, 1.0, 10.0])
def test_intervals_hold_the_truth(damping, generator):
    matrix = semi_definite(300, 150, generator)
    estimates = [
        estimate_log_det(operator(matrix), damping, num_probes=4, num_steps=6, seed=seed) for seed in range(100)
    ]
    assert accuracy(estimates, log_det(matrix, damping)).num_covered >= 90
    narrowed = [estimate._replace(error=estimate.error / 8) for estimate in estimates]
    assert accuracy(narrowed, log_det(matrix, damping)).num_covered < 90  # a control


def test_it_is_exact_where_the_space_is_full_or_the_matrix_is_zero(generator):
    matrix = semi_definite(12, 8, generator)
    estimate = estimate_log_det(operator(matrix), 0.5, num_probes=3, num_steps=9)
    torch.testing.assert_close(estimate.value, log_det(matrix, 0.5), rtol=1e-10, atol=0)
    assert estimate.error < 1e-6
    for size, num_probes in ((4, 2), (8, 2), (12, 3)):  # a space that is exhausted at once, in exact arithmetic
        scaled = estimate_log_det(operator(3 * torch.eye(size)), num_probes=num_probes)
        torch.testing.assert_close(scaled.value, size * torch.tensor(4.0).log(), rtol=1e-10, atol=0)
    zero = estimate_log_det(operator(torch.zeros(50, 50)), 1.0)
    assert abs(float(zero.value)) < 1e-12


def test_the_seed_decides_the_log_determinant(generator):
    matrix = operator(semi_definite(100, 50, generator))
    first, again, other = (estimate_log_det(matrix, num_probes=2, num_steps=3, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.value != other.value


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(NotPositiveDefiniteError, match="gauss_newton"):
        estimate_log_det(operator(torch.diag(torch.linspace(-1, 3, 30))))


def test_damping_must_be_positive():
    with pytest.raises(DataError, match="damping"):
        estimate_log_det(operator(torch.eye(3)), 0.0)
