import pytest
import torch

from covary.errors import NotPositiveDefiniteError, ShapeError, StructureError
from covary.linalg.checks import check_entries, check_factor, check_scale, check_vectors, describe, require_positive


def test_matrices_are_named_by_block_and_factor() -> None:
    assert describe("") == "the matrix"
    assert describe("head") == "block 'head'"
    assert describe("head", "input_cov") == "input_cov of block 'head'"


def test_valid_matrices_pass() -> None:
    check_factor(torch.eye(2), (2,), "x")
    check_factor(torch.ones(3, 2, 2), (2, 3), "x")
    check_entries(torch.tensor([[1.0, 2.0], [2.0 + 1e-9, 1.0]]), "x")  # rounding between the triangles
    check_vectors(torch.ones(4, 3), 3, "x")
    check_scale(0.0, "x")
    values = torch.ones(2)
    assert require_positive(values, "x") is values


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: check_factor(torch.ones(3, 2, 2), (2,), "x"), ShapeError, r"\(n, n\) .*got \(3, 2, 2\)"),
        (lambda: check_entries(torch.tensor([[torch.nan]]), "x"), NotPositiveDefiniteError, "finite; 1 are not"),
        (lambda: check_entries(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), "x"), StructureError, "symmetric"),
        (lambda: check_vectors(torch.ones(3, 2), 3, "x"), ShapeError, r"\(\.\.\., 3\), got \(3, 2\)"),
        (lambda: check_scale(-2.0, "x"), StructureError, "at least 0, got -2"),
        (lambda: require_positive(torch.tensor([1.0, 0.0]), "x"), NotPositiveDefiniteError, r"above 0, got 0\.000e"),
    ],
)
def test_invalid_matrices_are_refused(check, error, message) -> None:
    with pytest.raises(error, match=message):
        check()
