"""Stochastic Lanczos quadrature against log-determinants, and its bounds against the sums they bound."""

import pytest
import torch

from covary.errors import DataError, NotPositiveDefiniteError
from covary.geometry import MatrixFree, estimate_log_det
from covary.geometry.estimators.accuracy import accuracy
from covary.geometry.estimators.lanczos import krylov
from covary.geometry.estimators.log_det import _bracket


def operator(matrix):
    return MatrixFree(lambda vectors: vectors @ matrix, len(matrix), matrix.dtype)


def semi_definite(size, rank, generator):
    """A matrix of some rank whose eigenvalues fall over five orders of magnitude."""
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator))[0][:, :rank]
    return (basis * torch.logspace(3, -2, rank)) @ basis.T


def log_det(matrix, damping):
    return torch.linalg.slogdet(torch.eye(len(matrix)) + matrix / damping)[1]


@pytest.mark.parametrize("damping", [0.01, 1, 30.0])
@pytest.mark.parametrize("num_steps", [1, 2, 4, 8])
def test_the_bounds_hold_at_every_step(num_steps, damping, generator):
    """Σ sᵀf(A)s lies between the bounds, for the block and for all of the Krylov space."""
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
    """Rounding is above the small eigenvalues here; bounds that divided by it once came out twice the truth."""
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
    zero = estimate_log_det(operator(torch.zeros(50, 50)), 1.0)
    assert abs(float(zero.value)) < 1e-12


def test_the_seed_decides(generator):
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
