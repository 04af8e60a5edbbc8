import pytest
import torch
from scipy.linalg import expm

from covary._errors import StructureError
from covary.groups import AFFINE_NAMES, affine_generators, exponential


def test_generators_in_their_order():
    assert AFFINE_NAMES == ("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear")
    generators = affine_generators()
    assert generators.shape == (6, 3, 3)
    assert torch.equal(generators[2], torch.tensor([[0, -1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float32))
    assert torch.equal(generators[5], torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float32))
    assert torch.linalg.matrix_rank(generators.flatten(1)) == 6


def test_a_subset_keeps_the_order_that_was_asked():
    generators = affine_generators(dtype=torch.float64)
    assert torch.equal(affine_generators(("shear", "shift_y"), dtype=torch.float64), generators[[5, 1]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shift_x", lambda a: [[1, 0, a], [0, 1, 0], [0, 0, 1]]),
        ("rotation", lambda a: [[a.cos(), -a.sin(), 0], [a.sin(), a.cos(), 0], [0, 0, 1]]),
        ("scale_y", lambda a: [[1, 0, 0], [0, a.exp(), 0], [0, 0, 1]]),
        ("shear", lambda a: [[a.cosh(), a.sinh(), 0], [a.sinh(), a.cosh(), 0], [0, 0, 1]]),
    ],
)
def test_one_parameter_subgroups(name, expected):
    amount = torch.tensor(0.7)
    (generator,) = affine_generators((name,), dtype=torch.float64)
    torch.testing.assert_close(exponential(amount * generator), torch.tensor(expected(amount)))


def test_exponential_against_scipy(generator):
    algebra = torch.randn(4, 2, 3, 3, generator=generator)
    expected = torch.stack([torch.from_numpy(expm(x.numpy())) for x in algebra.reshape(8, 3, 3)]).reshape(4, 2, 3, 3)
    torch.testing.assert_close(exponential(algebra), expected)


def test_exponential_is_differentiable_at_the_identity():
    algebra = torch.zeros(1, 3, 3, requires_grad=True)
    assert torch.autograd.gradcheck(exponential, algebra)
    assert torch.autograd.gradgradcheck(exponential, algebra)


def test_unknown_generator():
    with pytest.raises(StructureError, match="'twist' is no generator of the affine group; those are shift_x"):
        affine_generators(("rotation", "twist"))
