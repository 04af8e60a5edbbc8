import pytest
import torch
from scipy.linalg import expm

from covary.errors import StructureError
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


def affine_algebra(top):
    """Elements (…, 3, 3) of the algebra with the rows (…, 2, 3)."""
    return torch.cat([top, torch.zeros(*top.shape[:-2], 1, 3)], dim=-2)


@pytest.mark.parametrize("size", [0.1, 1.0, 2.0])
def test_exponential_against_scipy(size, generator):
    algebra = affine_algebra(size * torch.randn(40, 2, 2, 3, generator=generator))
    expected = torch.stack([torch.from_numpy(expm(x.numpy())) for x in algebra.flatten(0, 1)]).unflatten(0, (40, 2))
    # relative to the whole matrix: an entry may be the small difference of large ones
    error, norm = ((m.flatten(2).norm(dim=2)) for m in (exponential(algebra) - expected, expected))
    assert (error / norm).max() < 1e-12


# Where a closed form by eigenvalues divides by zero: 0, equal eigenvalues (with and without two eigenvectors), an
# eigenvalue 0 (where the integral φ has a removable singularity), and a whole turn, where e^A = 1.
DEGENERATE = {
    "zero": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "shift": [[0.0, 0.0, 0.3], [0.0, 0.0, -0.2]],
    "zoom": [[0.7, 0.0, 0.3], [0.0, 0.7, -0.2]],
    "defective": [[0.7, 0.5, 0.3], [0.0, 0.7, -0.2]],
    "nilpotent": [[0.0, 0.5, 0.3], [0.0, 0.0, -0.2]],
    "one scale": [[0.7, 0.0, 0.3], [0.0, 0.0, -0.2]],
    "whole turn": [[0.0, -6.283185307179586, 0.3], [6.283185307179586, 0.0, -0.2]],
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_exponential_and_two_derivatives_where_eigenvalues_meet(case, generator):
    top = torch.tensor(DEGENERATE[case], requires_grad=True)
    first, second = (torch.randn(2, 3, generator=generator) for _ in range(2))

    def derivatives(function):
        value = function(affine_algebra(top))[:2]
        (slope,) = torch.autograd.grad(value, top, first, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, top, second)
        return value, slope, curvature

    for ours, theirs in zip(derivatives(exponential), derivatives(torch.linalg.matrix_exp), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_exponential_is_differentiable_at_the_identity():
    top = torch.zeros(1, 2, 3, requires_grad=True)
    assert torch.autograd.gradcheck(lambda top: exponential(affine_algebra(top)), top)
    assert torch.autograd.gradgradcheck(lambda top: exponential(affine_algebra(top)), top)


def test_unknown_generator():
    with pytest.raises(StructureError, match="'twist' is no generator of the affine group; those are shift_x"):
        affine_generators(("rotation", "twist"))
