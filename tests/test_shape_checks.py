"""The checks of annotations that run beside every test: what they refuse, and what they let pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import beartype
import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int, Shaped, TypeCheckError
from torch import Tensor

import covary.linalg
from shape_checks import IS_ARRAY, JAXTYPED, SCOPES, checked, has_shapes, is_array, plain_shape

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


@check
def summed(a: Float[Tensor, "*batch n"], b: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    return a.sum(-1) + b


@check
@dataclass
class Line:
    slope: Float[Tensor, "n"]
    offset: Float[Tensor, "n"]


@check
@dataclass
class Unchecked:
    __no_type_check__: ClassVar[bool] = True
    number: int


@check
class Parallel(Line):
    pass


def adder(amount: int) -> Callable[[int], int]:
    @check
    def add(number: int) -> int:
        return number + amount

    return add


def scaler(factor: float) -> Callable[[Tensor], Tensor]:
    @check
    def scale(a: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return (factor * a)[: int(3 * factor)]

    return scale


def test_what_fits_passes():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert gram(torch.ones(2, 3)).shape == (2, 2)
    assert transposed(torch.ones(2, 2)).shape == (2, 2)
    assert zeros(3).shape == (3, 3)
    assert twice(2) == 4
    assert summed(torch.ones(2, 3, 4), torch.nn.Parameter(torch.ones(2, 3))).shape == (2, 3)
    assert Unchecked("one").number == "one"
    assert Parallel(torch.ones(2), torch.ones(2)).slope.shape == (2,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: product(torch.ones(2, 3), torch.ones(2, 4)),  # two values of one letter
        lambda: product(torch.ones(2, 3), torch.ones(3)),  # too few dimensions
        lambda: product(torch.ones(2, 3), torch.ones(3, 4, dtype=torch.int64)),
        lambda: transposed(torch.ones(2, 3)),  # the letters of the result are those of the arguments
        lambda: zeros(2),
        lambda: twice("2"),
        lambda: summed(torch.ones(2, 3, 4), torch.ones(3)),
        lambda: Line(torch.ones(2), torch.ones(3)),
        lambda: Parallel(torch.ones(2), torch.ones(3)),
        lambda: Line(torch.ones(2), 0.0),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(TypeCheckError):
        call()


def test_a_function_inside_of_another_is_its_own_at_every_call():
    """The wrapper is compiled once, for whatever is enclosed."""
    assert [adder(amount)(1) for amount in (1, 2, 3)] == [2, 3, 4]
    assert [scaler(factor)(torch.ones(3)).sum() for factor in (1.0, 2.0)] == [3, 6]
    assert adder(1).__name__ == "add"
    for amount in (1, 2):
        with pytest.raises(TypeCheckError):
            adder(amount)("1")
        with pytest.raises(TypeCheckError):
            scaler(0.5 / amount)(torch.ones(3))


SHAPES = ["n", "n m", "n n", "2 n", "*b", "*b n", "n *b m", "... n", "n ...", "", "n_1 n_1", "n+1", "#n m", "_ n"]
TYPES = [kind[Tensor, shape] for kind in (Float, Int, Shaped) for shape in SHAPES]


@given(st.lists(st.tuples(st.sampled_from(TYPES), st.lists(st.integers(1, 2), max_size=3), st.booleans()), max_size=6))
def test_one_scope_is_that_of_jaxtyping(values):
    """Tensors one after another in one scope: what fits, and which letters are then known, those of a refusal not."""
    outcomes = []
    for fits in (IS_ARRAY, is_array):
        with JAXTYPED("context"):
            outcomes.append([])
            for annotation, shape, whole in values:
                tensor = torch.zeros(shape, dtype=torch.int64 if whole else torch.float64)
                try:
                    outcomes[-1].append(fits(annotation, tensor))
                except jaxtyping.AnnotationError:  # a sum of a letter that is not known yet
                    outcomes[-1].append(None)
            outcomes[-1].append(SCOPES.memo_stack[-1][:2])
    assert outcomes[0] == outcomes[1]


def test_few_shapes_are_left_to_jaxtyping():
    assert [shape for shape in SHAPES if plain_shape(Float[Tensor, shape]) is None] == ["n+1", "#n m", "_ n"]
    assert isinstance(torch.ones(2), Float[Tensor, "n"])
    assert not isinstance(torch.ones(2), Int[Tensor, "n"])


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError, match="violates type hint"):
        covary.linalg.Dense(torch.eye(2)).matvec(torch.ones(2, dtype=torch.int64))


def test_shapes_are_found_inside_other_types():
    array = Float[Tensor, "n"]
    assert all(map(has_shapes, (array, list[array], dict[str, array | None], tuple[int, array], "Kron")))
    assert not any(map(has_shapes, (int, list[int], dict[str, Tensor], None)))
