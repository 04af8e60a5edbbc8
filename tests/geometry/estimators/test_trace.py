"""Hutch++ against the trace."""

import pytest
import torch

from covary.errors import DataError
from covary.geometry import MatrixFree, estimate_trace
from covary.geometry.estimators.estimate import accuracy


def operator(matrix):
    return MatrixFree(lambda vectors: vectors @ matrix, len(matrix), matrix.dtype)


def spectrum(values, generator):
    """A symmetric matrix with these eigenvalues in a random basis."""
    basis = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator))[0]
    return (basis * values) @ basis.T


def test_it_is_exact_for_low_rank(generator):
    matrix = spectrum(torch.cat([torch.tensor([9.0, -4.0, 1.0]), torch.zeros(57)]), generator)
    estimate = estimate_trace(operator(matrix), num_products=12)
    torch.testing.assert_close(estimate.value, torch.tensor(6.0))
    assert estimate.error < 1e-10
    assert estimate.num_products == 12


def test_it_is_exact_where_the_block_spans_everything(generator):
    matrix = spectrum(torch.linspace(-1, 3, 7), generator)
    estimate = estimate_trace(operator(matrix), num_products=90)
    torch.testing.assert_close(estimate.value, matrix.trace())
    assert (float(estimate.error), estimate.num_products) == (0.0, 14)


@pytest.mark.parametrize("decay", ["slow", "fast", "indefinite"])
def test_intervals_hold_the_truth(decay, generator):
    ranks = torch.arange(1.0, 201.0)
    values = {"slow": ranks.rsqrt(), "fast": ranks**-2, "indefinite": ranks**-1 * (-1) ** ranks}[decay]
    matrix = spectrum(values, generator)
    found = accuracy([estimate_trace(operator(matrix), num_products=30, seed=s) for s in range(100)], matrix.trace())
    assert found.num_covered >= 90
    halved = [e._replace(error=e.error / 4) for e in (estimate_trace(operator(matrix), seed=s) for s in range(100))]
    assert accuracy(halved, matrix.trace()).num_covered < 90  # a control: a quarter of the width does not


def test_the_seed_decides(generator):
    matrix = operator(spectrum(torch.arange(1.0, 101.0), generator))
    first, again, other = (estimate_trace(matrix, num_products=9, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.value != other.value


def test_too_few_products():
    with pytest.raises(DataError, match="at least 3"):
        estimate_trace(operator(torch.eye(3)), num_products=2)
