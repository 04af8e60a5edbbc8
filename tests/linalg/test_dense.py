"""Dense and diagonal matrices with a shift per row; sums of the two."""

import pytest
import torch
from torch import Tensor

from covary.errors import NotPositiveDefiniteError, ShapeError, StructureError
from covary.linalg import AbstractPSD, Dense, Diagonal
from oracles import linalg as oracle

from .structures import CASES, Case, gram, normal
from .test_psd import EXACT, symmetric

CLOSED = {name: CASES[name] for name in ("dense", "diagonal")}


@pytest.fixture(params=CLOSED.values(), ids=list(CLOSED))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def row_shift(value: AbstractPSD) -> Tensor:
    return torch.linspace(0.1, 2.0, value.size, dtype=torch.float64)


def test_a_shift_per_row_gives_the_dense_values(case: Case) -> None:
    value, vectors = case.value(), normal(0, 2, 3, case.value().size)
    shift, matrix = row_shift(value), value.to_dense()
    torch.testing.assert_close(value.logdet(shift), oracle.logdet(matrix, shift), **EXACT)
    torch.testing.assert_close(value.solve(vectors, shift), oracle.solve(matrix, vectors, shift), **EXACT)
    expected = oracle.effective_dimension(matrix, shift)
    torch.testing.assert_close(value.effective_dimension(shift), expected, **EXACT)
    root = value.sample(torch.eye(value.size, dtype=torch.float64), shift).mT
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(oracle.shifted(matrix, shift)), **EXACT)
    torch.testing.assert_close(value.sample(vectors, shift), vectors @ root.mT, **EXACT)


@pytest.mark.parametrize("quantity", ["logdet", "effective_dimension", "solve"])
def test_gradients_with_a_shift_per_row(case: Case, quantity: str) -> None:
    found = []
    for ours in (True, False):
        (leaf,), shift = case.leaves(), row_shift(case.value()).requires_grad_()
        value = case.build([leaf])
        vectors = (normal(1, 2, value.size),) if quantity == "solve" else ()
        target, lead = (value, ()) if ours else (oracle, (value.to_dense(),))
        result = getattr(target, quantity)(*lead, *vectors, shift).square().sum()
        found.append([symmetric(d) for d in torch.autograd.grad(result, [leaf, shift])])
    torch.testing.assert_close(found[0], found[1], **EXACT)


def test_cotangents_with_a_shift_per_row(case: Case) -> None:
    (leaf,), shift = case.leaves(), row_shift(case.value())
    (expected,) = torch.autograd.grad(oracle.logdet(case.build([leaf]).to_dense(), shift) / 2, leaf)
    (ours,) = case.build([leaf]).half_logdet_cotangents(shift)
    torch.testing.assert_close(ours, symmetric(expected), **EXACT)
    assert not ours.requires_grad


def test_sums_keep_the_narrowest_structure() -> None:
    dense, diagonal = Dense(gram(2, 4, 4)), Diagonal(normal(3, 4).square())
    pairs = [(dense, dense, Dense), (dense, diagonal, Dense), (diagonal, dense, Dense), (diagonal, diagonal, Diagonal)]
    for left, right, structure in pairs:
        total = left + right
        assert type(total) is structure
        torch.testing.assert_close(total.to_dense(), left.to_dense() + right.to_dense(), **EXACT)


def test_sums_with_other_types_are_refused() -> None:
    for value in (Dense(torch.eye(2)), Diagonal(torch.ones(2))):
        with pytest.raises(TypeError, match="unsupported operand"):
            value + 1.0
    with pytest.raises(ShapeError, match="got 2 and 3"):
        Dense(torch.eye(2)) + Dense(torch.eye(3))


def test_accumulation_requires_the_same_structure() -> None:
    with pytest.raises(StructureError, match="same structure, Dense, got Diagonal"):
        Dense(torch.eye(2)).accumulate(Diagonal(torch.ones(2)))


def test_a_failed_cholesky_names_block_and_shift() -> None:
    value = Dense(gram(4, 3, 3, rank=1), name="head")
    with pytest.raises(NotPositiveDefiniteError, match=r"block 'head'.*shift is -1\.000e\+00.*Increase the shift"):
        value.logdet(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("shift", [0.0, torch.ones(2)], ids=["scalar", "per row"])
def test_entries_that_are_not_finite_or_symmetric_are_refused(shift: float | Tensor) -> None:
    with pytest.raises(NotPositiveDefiniteError, match="block 'x' must be finite; 1 are not"):
        Dense(torch.tensor([[torch.inf, 0.0], [0.0, 1.0]]), name="x").logdet(shift)
    with pytest.raises(StructureError, match="block 'x' must be symmetric"):
        Dense(torch.tensor([[1.0, 0.5], [0.0, 1.0]]), name="x").logdet(shift)


def test_an_eigenvalue_at_zero_requires_a_shift() -> None:
    for value in (Dense(torch.zeros(2, 2), name="x"), Diagonal(torch.tensor([0.0, 1.0]), name="x")):
        with pytest.raises(NotPositiveDefiniteError, match=r"block 'x' must be above 0, got 0\.000e\+00"):
            value.logdet()
        with pytest.raises(NotPositiveDefiniteError, match="block 'x'"):
            value.solve(torch.ones(2))
        with pytest.raises(NotPositiveDefiniteError, match="block 'x' must be above 0, got -5"):
            value.sample(torch.ones(2), -5.0)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"block 'x' must have shape \(n, n\).*got \(2, 3\)"):
        Dense(torch.ones(2, 3), name="x")
    with pytest.raises(ShapeError, match=r"got \(0, 0\)"):
        Dense(torch.ones(0, 0))
    for value in (Dense(torch.eye(2)), Diagonal(torch.ones(2))):
        with pytest.raises(ShapeError, match=r"shape \(\) or \(2,\), got \(3,\)"):
            value.logdet(torch.ones(3))
        with pytest.raises(StructureError, match="entry of this block alone"):
            value.logdet({"x": 1.0})
