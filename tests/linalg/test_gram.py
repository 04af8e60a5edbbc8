"""Sums that keep their rows: the same eigenvalues from a smaller matrix."""

import pytest
import torch
from torch import Tensor

from covary.errors import NotPositiveDefiniteError
from covary.linalg import AbstractPSD, Block, Dense, Kron
from covary.linalg.gram import HALF_SIZE, STRIP, Gram, row_products
from oracles import linalg as oracle

from .structures import gram, normal
from .test_psd import EXACT


def remembered(rows: Tensor) -> Gram:
    """The sum over the rows (Q, k, n) of each block."""
    return Gram(rows.mT @ rows, rows)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of every matrix of which only eigenvalues are computed."""
    seen: list[int] = []
    original = torch.linalg.eigvalsh
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda matrix: seen.append(matrix.shape[-1]) or original(matrix))
    return seen


def values() -> dict[str, AbstractPSD]:
    rows, blocked = normal(0, 1, 2, 5), normal(1, 3, 2, 4)
    return {
        "dense": Dense(Gram(rows[0].mT @ rows[0], rows)),
        "kron": Kron(Gram(rows[0].mT @ rows[0], rows), gram(2, 3, 3), 2.0),
        "blocked": Kron(remembered(blocked), remembered(normal(3, 3, 1, 2)), 2.0),
        "shared": Kron(gram(4, 2, 2), remembered(blocked), 2.0),
    }


@pytest.mark.parametrize("name", ["dense", "kron", "blocked", "shared"])
def test_eigenvalues_are_those_of_the_whole_matrix(name: str, sizes: list[int]) -> None:
    value = values()[name]
    dense = value.to_dense()
    torch.testing.assert_close(value.logdet(0.3), oracle.logdet(dense, 0.3), **EXACT)
    expected = torch.linalg.solve(dense + 0.3 * torch.eye(len(dense)), dense).trace()
    torch.testing.assert_close(value.effective_dimension(0.3), expected, **EXACT)
    assert max(sizes) <= 3, "4 × 4 and 5 × 5 matrices of two rows were decomposed whole"


def test_the_rows_are_decomposed() -> None:
    """The control: rows of another matrix give another determinant."""
    rows = normal(0, 1, 2, 5)
    wrong = Dense(Gram(rows[0].mT @ rows[0], 2 * rows))
    assert not torch.allclose(wrong.logdet(0.3), values()["dense"].logdet(0.3))


def test_eigenvectors_are_those_of_the_whole_matrix() -> None:
    for value in values().values():
        vector = normal(5, value.size)
        solved = value.solve(vector, 0.3)
        torch.testing.assert_close(value.to_dense() @ solved + 0.3 * solved, vector, **EXACT)


def test_rows_are_kept_while_they_are_fewer_than_columns(sizes: list[int]) -> None:
    parts = [Kron(remembered(normal(seed, 2, 2, 5)), gram(seed, 1, 1), 2.0) for seed in range(3)]
    two = parts[0].accumulate(parts[1])
    three = two.accumulate(parts[2])
    assert two.grams[0].rows is not None
    assert two.grams[0].rows.shape == (2, 4, 5)
    assert three.grams[0].rows is None
    for value in (two, three):
        torch.testing.assert_close(value.logdet(0.3), oracle.logdet(value.to_dense(), 0.3), **EXACT)
    assert sizes == [4, 1, 5, 1]
    plain = Kron(gram(7, 2, 5, 5), gram(8, 1, 1), 2.0)
    assert two.accumulate(plain).grams[0].rows is None


def test_only_an_identity_map_keeps_the_rows() -> None:
    block = Block(values())
    torch.testing.assert_close(block.map(lambda t: t).logdet(0.3), block.logdet(0.3), **EXACT)
    assert block.map(lambda t: t)["kron"].grams[0].rows is not None
    for changed, factor in ((block.map(lambda t: 2 * t), 2), (block * 0.5, 0.5)):
        assert changed["kron"].grams[0].rows is None
        torch.testing.assert_close(changed["kron"].logdet(0.3), oracle.logdet(factor * block["kron"].to_dense(), 0.3))


def test_derivatives_go_through_the_whole_matrix() -> None:
    rows = normal(0, 1, 2, 5)
    matrix = (rows[0].mT @ rows[0]).requires_grad_()
    (ours,) = torch.autograd.grad(Dense(Gram(matrix, rows)).logdet(0.3), matrix)
    torch.testing.assert_close(ours, torch.linalg.inv(matrix.detach() + 0.3 * torch.eye(5)), **EXACT)


def test_rows_that_are_not_finite_are_refused_by_name() -> None:
    rows = torch.full((1, 1, 3), torch.inf)
    with pytest.raises(NotPositiveDefiniteError, match="grad_cov of block 'x' must be finite"):
        Kron(gram(0, 2, 2), Gram(torch.eye(3), rows), name="x").logdet(1.0)


def test_eigenvectors_that_were_needed_first_leave_the_eigenvalues_of_the_rows() -> None:
    """In single precision a weak shift turns the rounding of the whole matrix into nats; the rows have none of it."""
    rows = normal(0, 1, 4, 200)
    exact = Dense(rows[0].mT @ rows[0]).logdet(1e-6)
    single = rows.float()
    dense = Dense(Gram(single[0].mT @ single[0], single))
    dense.solve(single[0, 0], 1e-6)
    torch.testing.assert_close(dense.logdet(1e-6).double(), exact, rtol=0, atol=1e-3)
    whole = Dense(single[0].mT @ single[0])  # the control
    assert abs(whole.logdet(1e-6) - exact) > 10


@pytest.mark.parametrize("size", [5, HALF_SIZE, HALF_SIZE + STRIP + 1])
def test_products_of_rows_by_half_are_the_whole_matrix(size):
    rows = normal(0, 7, size)
    found = row_products(rows)
    torch.testing.assert_close(found, torch.einsum("ki,kj->ij", rows, rows))
    assert size < HALF_SIZE or torch.equal(found.triu(STRIP), found.tril(-STRIP).T), "what is above mirrors the strips"
