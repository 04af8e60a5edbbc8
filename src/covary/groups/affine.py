r"""The affine group of the plane: its Lie algebra, its exponential map, and its action on images.

A matrix maps OUTPUT coordinates to INPUT coordinates: the output at u is the input at M u, so content moves by the
inverse of M. Coordinates have their origin at the center, x to the right and y down; pixel centers of W columns are at
x = (2j + 1)/W − 1 (`align_corners=False`). Hence, seen on the screen, shift_x = a moves content to the left by a, the
rotation by θ turns it counter-clockwise by θ (θ = π/2 is `torch.rot90(image, 1, (-2, -1))`), and scale > 0 shrinks it.

There are two units. A shift of 1 is half of its own side, whatever the aspect ratio. The linear part acts on isotropic
pixel coordinates, so that a rotation is one on images that are not square too; `to_normalized` combines the two.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from .._text import meant
from ..errors import DataError, ShapeError, StructureError

_GENERATORS = {
    "shift_x": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "shift_y": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    "rotation": [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_x": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_y": [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
    "shear": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
}

AFFINE_NAMES = tuple(_GENERATORS)
PADDINGS = ("zeros", "border", "reflection")

# A / 2⁴ with ‖A‖ ≤ 8 leaves a Taylor remainder of ½¹³ / 13! ≈ 2e-14; each doubling costs half a digit of rounding.
_DOUBLINGS, _DEGREE = 4, 12


def affine_generators(
    names: Sequence[str] = AFFINE_NAMES, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "K 3 3"]:
    """Generators G_i of the affine group acting on (x, y, 1), shape (K, 3, 3).

    Arguments:
        names: Names among "shift_x", "shift_y", "rotation", "scale_x", "scale_y" and "shear"; all by default.
        dtype: The dtype of the matrices.

    Example:
        >>> from covary.groups import affine_generators
        >>> affine_generators(["rotation"]).int().tolist()
        [[[0, -1, 0], [1, 0, 0], [0, 0, 0]]]
    """
    for name in names:
        if name not in _GENERATORS:
            raise StructureError(
                f"Expected a generator of the affine group, got '{name}'. Choose one of {', '.join(AFFINE_NAMES)}."
            )
    return torch.tensor([_GENERATORS[name] for name in names], dtype=dtype).reshape(-1, 3, 3)


def exponential(algebra: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3 3"]:
    r"""Group elements :math:`\exp(X)` of elements X = (A, t; 0, 0) of the affine algebra, smooth everywhere.

    :math:`\exp(X) = (e^A, \varphi(A)\,t; 0, 1)` with :math:`\varphi(A) = \int_0^1 e^{uA} du`. With A = m + B and
    tr B = 0, B² = q (Cayley–Hamilton), so that both are numbers times 1 plus numbers times B: polynomials in m and q,
    seven times faster than `matrix_exp` with its gradient, without a special case for equal eigenvalues. Exact to
    rounding for ‖A‖ ≤ 8, far beyond a rotation by π or a scale by e³. The last row of X is taken as 0.

    Example:
        >>> import torch
        >>> from covary.groups import affine_generators, exponential
        >>> quarter = exponential(torch.pi / 2 * affine_generators(["rotation"]))
        >>> quarter.round().int().tolist()
        [[[0, -1, 0], [1, 0, 0], [0, 0, 1]]]
    """
    linear, shift = algebra[..., :2, :2], algebra[..., :2, 2:]
    m = (linear[..., 0, 0] + linear[..., 1, 1]) / 2
    q = ((linear[..., 0, 0] - linear[..., 1, 1]) / 2).square() + linear[..., 0, 1] * linear[..., 1, 0]
    exp_one, exp_b, phi_one, phi_b = _coefficients(m, q)
    one = torch.eye(2, dtype=algebra.dtype, device=algebra.device)
    b = linear - m[..., None, None] * one
    exp = exp_one[..., None, None] * one + exp_b[..., None, None] * b
    phi = phi_one[..., None, None] * one + phi_b[..., None, None] * b
    last = algebra.new_tensor([0.0, 0.0, 1.0]).expand(*m.shape, 1, 3)
    return torch.cat([torch.cat([exp, phi @ shift], -1), last], -2)


def warp(images: Tensor, matrices: Tensor, padding: str = "zeros") -> Float[Tensor, "N S C H W"]:
    """Images transformed by S affine maps each, shape (N, S, C, H, W), twice differentiable in images and matrices.

    Arguments:
        images: The images, shape (N, C, H, W), floating.
        matrices: The maps from output to input coordinates, shape (N, S, 3, 3): linear part in isotropic pixel
            coordinates, translation in halves of each side.
        padding: The values outside of an image: "zeros", "border" or "reflection".

    Example:
        >>> import torch
        >>> from covary.groups import affine_generators, exponential, warp
        >>> shift = exponential(affine_generators(["shift_x"]))  # by half of the width, to the left
        >>> warp(torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), shift[None]).flatten().tolist()
        [3.0, 4.0, 0.0, 0.0]
    """
    _check(images, matrices, padding)
    return warp_normalized(images, to_normalized(matrices, images.shape[-2], images.shape[-1]), padding)


def warp_normalized(images: Tensor, matrices: Tensor, padding: str = "zeros") -> Float[Tensor, "N S C H W"]:
    """Images transformed as by `warp`, with maps that act on [−1, 1]², the coordinates of each side."""
    _check(images, matrices, padding)
    num_data, num_channels, height, width = images.shape
    num_samples = matrices.shape[1]
    # The samples are stacked along the height of one grid: grid_sample reads each image S times without copying it.
    grid = _grids(matrices, height, width).reshape(num_data, 2, num_samples * height, width).permute(0, 2, 3, 1)
    samples = grid_sample(images, grid, mode="bilinear", padding_mode=padding, align_corners=False)
    return samples.reshape(num_data, num_channels, num_samples, height, width).transpose(1, 2)


def to_normalized(transforms: Float[Tensor, "*batch 3 3"], height: int, width: int) -> Float[Tensor, "*batch 3 3"]:
    r"""Transforms :math:`D^{-1} X D` on [−1, 1]² of transforms X with an isotropic linear part, D = diag(W, H).

    Translations are in halves of each side before and after. It also maps elements of the algebra: the exponential of
    the result is the conjugate of the exponential, so exponentiate after this map if shifts and rotations mix.
    """
    aspect = width / height
    factors = [[1.0, 1 / aspect, 1.0], [aspect, 1.0, 1.0], [1.0, 1.0, 1.0]]
    return transforms * transforms.new_tensor(factors)


def _coefficients(m: Float[Tensor, "*batch"], q: Float[Tensor, "*batch"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Numbers (c, s, α, β) with :math:`e^A = c + s B` and :math:`\varphi(A) = \alpha + \beta B`."""
    step = 2.0**-_DOUBLINGS
    small_m, small_q = step * m, step**2 * q
    alpha, beta = torch.full_like(m, 1 / math.factorial(_DEGREE + 1)), torch.zeros_like(m)
    for order in range(_DEGREE, 0, -1):  # Horner: φ(A) = Σ Aʲ / (j + 1)!
        alpha, beta = alpha * small_m + beta * small_q + 1 / math.factorial(order), alpha + beta * small_m
    c, s = 1 + alpha * small_m + beta * small_q, step * (alpha + beta * small_m)  # e^A = 1 + A φ(A)
    beta = step * beta
    for _ in range(_DOUBLINGS):  # φ(2A) = φ(A) (1 + e^A) / 2, with B and q those of the whole A
        alpha, beta = (alpha * (1 + c) + beta * s * q) / 2, (beta * (1 + c) + alpha * s) / 2
        c, s = c * c + s * s * q, 2 * c * s
    return c, s, alpha, beta


def _grids(matrices: Float[Tensor, "N S 3 3"], height: int, width: int) -> Float[Tensor, "N 2 S HW"]:
    """Input coordinates of every output pixel, x and y on the second axis."""
    y, x = torch.meshgrid(_centers(height, matrices), _centers(width, matrices), indexing="ij")
    pixels = torch.stack([x.flatten(), y.flatten(), torch.ones_like(x).flatten()])
    # One tall product instead of N·S small ones is four times faster.
    return matrices[..., :2, :].transpose(1, 2) @ pixels


def _centers(num_pixels: int, like: Tensor) -> Float[Tensor, "num_pixels"]:
    """Centers of the pixels of one side in [−1, 1]."""
    return (2 * torch.arange(num_pixels, dtype=like.dtype, device=like.device) + 1) / num_pixels - 1


def _check(images: Tensor, matrices: Tensor, padding: str) -> None:
    if images.ndim != 4:
        raise ShapeError(f"Images must be (N, C, H, W), got {tuple(images.shape)}. Add missing axes with [:, None].")
    if not images.is_floating_point():
        raise DataError(f"Images must be floating, got {images.dtype}. Pass images.float() / 255 if they are bytes.")
    if matrices.ndim != 4 or matrices.shape[-2:] != (3, 3) or matrices.shape[0] != images.shape[0]:
        raise ShapeError(
            f"Matrices must be (N, S, 3, 3) with N = {len(images)} as the images, got {tuple(matrices.shape)}. "
            "Pass S affine matrices per image."
        )
    check_padding(padding)


def check_padding(name: str) -> str:
    """The padding itself, or an error for a name that is none."""
    if name not in PADDINGS:
        raise StructureError(f"Expected a padding among {', '.join(PADDINGS)}, got {name!r}.{meant(name, PADDINGS)}")
    return name
