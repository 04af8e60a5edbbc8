"""Krylov spaces and top eigenvalues against dense decompositions."""

import pytest
import torch

from covary.errors import DataError
from covary.geometry import MatrixFree, top_eigenvalues
from covary.geometry.estimators.accuracy import accuracy
from covary.geometry.estimators.lanczos import krylov


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
    # a control: one row sees one copy of a multiple eigenvalue
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


def test_the_seed_decides(generator):
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
