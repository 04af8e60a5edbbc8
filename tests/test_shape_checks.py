"""The checks of annotations that run beside every test: what they refuse, and what they let pass."""

import beartype
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

import covary.linalg
from shape_checks import checked, has_shapes

check = checked(typechecker=beartype.beartype)


@check
def product(a: Float[Tensor, "n k"], b: Float[Tensor, "k m"]) -> Float[Tensor, "n m"]:
    return a @ b


@check
def transposed(a: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    return a.T


@check
def zeros(side: int) -> Float[Tensor, "{side} {side}"]:
    return torch.zeros(side, 3)


@check
def twice(number: int) -> int:
    return 2 * number


@check
def gram(a: Float[Tensor, "n k"]) -> Float[Tensor, "n n"]:
    return product(a, a.T)  # the letters of `product` are its own


def test_what_fits_passes():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert gram(torch.ones(2, 3)).shape == (2, 2)
    assert transposed(torch.ones(2, 2)).shape == (2, 2)
    assert zeros(3).shape == (3, 3)
    assert twice(2) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: product(torch.ones(2, 3), torch.ones(2, 4)),  # two values of one letter
        lambda: product(torch.ones(2, 3), torch.ones(3)),  # too few dimensions
        lambda: product(torch.ones(2, 3), torch.ones(3, 4, dtype=torch.int64)),
        lambda: transposed(torch.ones(2, 3)),  # the letters of the result are those of the arguments
        lambda: zeros(2),
        lambda: twice("2"),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(TypeCheckError):
        call()


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError, match="violates type hint"):
        covary.linalg.Dense(torch.eye(2)).matvec(torch.ones(2, dtype=torch.int64))


def test_shapes_are_found_inside_other_types():
    array = Float[Tensor, "n"]
    assert all(map(has_shapes, (array, list[array], dict[str, array | None], tuple[int, array], "Kron")))
    assert not any(map(has_shapes, (int, list[int], dict[str, Tensor], None)))
