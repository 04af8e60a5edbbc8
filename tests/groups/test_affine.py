"""The affine group: generators, exponential map, and its action on images."""

import math

import pytest
import torch
from scipy.linalg import expm
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import grid_sample

from covary.errors import DataError, ShapeError, StructureError
from covary.groups import affine, affine_generators, exponential, warp
from covary.groups.affine import AFFINE_NAMES, to_normalized, warp_normalized


def test_generators_in_their_order():
    assert AFFINE_NAMES == ("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear")
    generators = affine_generators()
    assert generators.shape == (6, 3, 3)
    assert torch.equal(generators[2], torch.tensor([[0, -1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float32))
    assert torch.equal(generators[5], torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float32))
    assert torch.linalg.matrix_rank(generators.flatten(1)) == 6


def test_a_subset_is_in_the_requested_order():
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
def test_exponential_and_two_derivatives_at_equal_eigenvalues(case, generator):
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
    with pytest.raises(StructureError, match="generator of the affine group, got 'twist'. Choose one of shift_x"):
        affine_generators(("rotation", "twist"))


def matrix(**amounts):
    """One affine matrix as (1, 1, 3, 3)."""
    generators = affine_generators(tuple(amounts), dtype=torch.float64)
    return exponential(sum(a * g for a, g in zip(amounts.values(), generators, strict=True)))[None, None]


def blob(height, width, x, y):
    """An isotropic Gaussian bump at offset (x, y) pixels from the center, y down, as (1, 1, H, W)."""
    rows, columns = (torch.arange(side) - (side - 1) / 2 for side in (height, width))
    return torch.exp(-((columns[None] - x) ** 2 + (rows[:, None] - y) ** 2) / 4)[None, None]


def center(image):
    """Centroid of an image (H, W) in pixels from the center, x and y."""
    rows, columns = (torch.arange(side) - (side - 1) / 2 for side in image.shape)
    return torch.stack([(image * columns[None]).sum(), (image * rows[:, None]).sum()]) / image.sum()


@pytest.mark.parametrize("turns", [-1, 1, 2, 3])
@pytest.mark.parametrize("size", [7, 8])
def test_quarter_turns_are_rot90(turns, size, generator):
    images = torch.rand(2, 3, size, size, generator=generator)
    turned = warp(images, matrix(rotation=turns * math.pi / 2).expand(2, 1, 3, 3))
    torch.testing.assert_close(turned[:, 0], torch.rot90(images, turns, (-2, -1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pixels", [1, 3])
def test_whole_pixel_shifts_move_content_left_and_up(pixels, generator):
    images = torch.rand(1, 1, 6, 10, generator=generator)
    left = warp(images, matrix(shift_x=2 * pixels / 10))[:, 0]
    torch.testing.assert_close(left[..., :-pixels], images[..., pixels:], rtol=0, atol=1e-12)
    torch.testing.assert_close(left[..., -pixels:], torch.zeros_like(left[..., -pixels:]), rtol=0, atol=1e-12)
    up = warp(images, matrix(shift_y=2 * pixels / 6))[:, 0]
    torch.testing.assert_close(up[..., :-pixels, :], images[..., pixels:, :], rtol=0, atol=1e-12)


def test_half_a_shift_unit_is_a_quarter_of_each_side():
    moved = warp(blob(40, 80, 0.0, 0.0), matrix(shift_x=-0.5, shift_y=-0.5))
    torch.testing.assert_close(center(moved[0, 0, 0]), torch.tensor([20.0, 10.0]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("angle", [0.4, 1.0, math.pi / 2, -0.7])
def test_a_rotation_is_one_on_images_that_are_not_square(angle):
    image = blob(33, 65, 9.0, 0.0)
    expected = torch.tensor([9 * math.cos(angle), -9 * math.sin(angle)])  # counter-clockwise, y down
    turned = warp(image, matrix(rotation=angle))[0, 0, 0]
    torch.testing.assert_close(center(turned), expected, rtol=0, atol=0.01)
    torch.testing.assert_close(turned.sum(), image.sum(), rtol=0.01, atol=0)
    # The control: without the aspect ratio the same matrix moves the blob to another place.
    squeezed = warp_normalized(image, matrix(rotation=angle))[0, 0, 0]
    assert (center(squeezed) - expected).norm() > 0.5


def test_a_positive_scale_shrinks():
    moved = warp(blob(41, 41, 8.0, 0.0), matrix(scale_x=math.log(2.0)))[0, 0, 0]
    torch.testing.assert_close(center(moved), torch.tensor([4.0, 0.0]), rtol=0, atol=1e-2)


def test_normalized_algebra_exponentiates_to_the_conjugate(generator):
    height, width = 20, 50
    algebra = torch.randn(3, 3, generator=generator)
    algebra[2] = 0
    sides = torch.diag(torch.tensor([width / 2, height / 2, 1.0]))
    isotropic = algebra.clone()
    isotropic[:2, 2] = sides[:2, :2] @ algebra[:2, 2]  # shifts in pixels, as the linear part
    expected = sides.inverse() @ torch.linalg.matrix_exp(isotropic) @ sides
    torch.testing.assert_close(exponential(to_normalized(algebra, height, width)), expected)


def test_samples_are_those_of_single_warps(generator):
    images = torch.rand(3, 2, 5, 6, generator=generator)
    matrices = torch.eye(3) + 0.2 * torch.randn(3, 4, 3, 3, generator=generator)
    together = warp(images, matrices, "border")
    assert together.shape == (3, 4, 2, 5, 6)
    for n in range(3):
        for s in range(4):
            alone = warp(images[n : n + 1], matrices[n : n + 1, s : s + 1], "border")[0, 0]
            torch.testing.assert_close(together[n, s], alone)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("num_channels", [1, 2])
def test_first_and_second_derivatives(padding, num_channels, generator):
    images = torch.rand(1, num_channels, 4, 5, generator=generator, requires_grad=True)
    noise = torch.randn(1, 2, 2, 3, generator=generator)
    rows = (torch.eye(3)[:2] + 0.13 * noise).requires_grad_()

    def warped(images, rows):
        last = torch.tensor([0.0, 0.0, 1.0]).expand(1, 2, 1, 3)
        return warp(images, torch.cat([rows, last], dim=2), padding)

    assert gradcheck(warped, (images, rows))
    assert gradgradcheck(warped, (images, rows))


def test_float32(generator):
    images = torch.rand(2, 1, 8, 8, generator=generator)
    matrices = torch.eye(3) + 0.1 * torch.randn(2, 3, 3, 3, generator=generator)
    single = warp(images.float(), matrices.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), warp(images, matrices), rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_channels", [1, 3])
def test_images_are_not_copied(num_channels, monkeypatch, generator):
    """For any number of samples `grid_sample` is called once, with the images themselves."""
    images, read = torch.rand(2, num_channels, 8, 8, generator=generator), []

    def seen(source, *arguments, **options):
        read.append(source)
        return grid_sample(source, *arguments, **options)

    monkeypatch.setattr(affine, "grid_sample", seen)
    copies = warp(images, torch.eye(3).expand(2, 5, 3, 3))
    (source,) = read
    assert (source.data_ptr(), source.shape, source.stride()) == (images.data_ptr(), images.shape, images.stride())
    assert num_channels > 1 or copies.is_contiguous(), "nor are copies of gray images moved to flatten them"


IMAGES, IDENTITIES = torch.zeros(2, 1, 4, 4), torch.eye(3).expand(2, 1, 3, 3)


@pytest.mark.parametrize(
    ("images", "matrices", "padding", "error", "message"),
    [
        (IMAGES[0], IDENTITIES, "zeros", ShapeError, r"\(N, C, H, W\), got \(1, 4, 4\)"),
        (IMAGES.byte(), IDENTITIES, "zeros", DataError, "floating, got torch.uint8"),
        (IMAGES, IDENTITIES[:, 0], "zeros", ShapeError, r"\(N, S, 3, 3\) with N = 2 .*got \(2, 3, 3\)"),
        (IMAGES, IDENTITIES[:1], "zeros", ShapeError, r"got \(1, 1, 3, 3\)"),
        (IMAGES, IDENTITIES, "circular", StructureError, "zeros, border, reflection, got 'circular'"),
    ],
)
def test_invalid_inputs(images, matrices, padding, error, message):
    with pytest.raises(error, match=message):
        warp(images, matrices, padding)
