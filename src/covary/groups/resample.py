r"""Affine maps acting on images, by bilinear interpolation.

A matrix maps OUTPUT coordinates to INPUT coordinates: the output at u is the input at M u, so content moves by the
inverse of M. Coordinates have their origin at the center, x to the right and y down; pixel centers of W columns lie at
x = (2j + 1)/W − 1 (`align_corners=False`). Hence, seen on the screen, shift_x = a moves content to the left by a, the
rotation by θ turns it counter-clockwise by θ (θ = π/2 is `torch.rot90(image, 1, (-2, -1))`), and scale > 0 shrinks it.

Two units are in play. A shift of 1 is half of its own side, whatever the aspect. The linear part acts on isotropic
pixel coordinates, so that a rotation is one on images that are not square; `to_normalized` joins the two.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from ..errors import DataError, ShapeError, StructureError

PADDINGS = ("zeros", "border", "reflection")


def warp(images: Tensor, matrices: Tensor, padding: str = "zeros") -> Float[Tensor, "N S C H W"]:
    """Images under S affine maps each, shape (N, S, C, H, W), differentiable twice in images and matrices.

    Arguments:
        images: The images, shape (N, C, H, W), floating.
        matrices: The maps from output to input coordinates, shape (N, S, 3, 3): linear part in isotropic pixel
            coordinates, translation in halves of each side.
        padding: What lies outside of an image: "zeros", "border" or "reflection".
    """
    _check(images, matrices, padding)
    return warp_normalized(images, to_normalized(matrices, images.shape[-2], images.shape[-1]), padding)


def warp_normalized(images: Tensor, matrices: Tensor, padding: str = "zeros") -> Float[Tensor, "N S C H W"]:
    """Images under S affine maps each, as `warp`, of maps that act on [−1, 1]², the coordinates of each side."""
    _check(images, matrices, padding)
    num_data, num_channels, height, width = images.shape
    num_samples = matrices.shape[1]
    # The samples lie along the height of one grid: grid_sample reads each image S times instead of copying it.
    grid = _grids(matrices, height, width).reshape(num_data, 2, num_samples * height, width).permute(0, 2, 3, 1)
    samples = grid_sample(images, grid, mode="bilinear", padding_mode=padding, align_corners=False)
    return samples.reshape(num_data, num_channels, num_samples, height, width).transpose(1, 2)


def to_normalized(transforms: Float[Tensor, "*batch 3 3"], height: int, width: int) -> Float[Tensor, "*batch 3 3"]:
    r"""Transforms :math:`D^{-1} X D` on [−1, 1]² of transforms X with an isotropic linear part, D = diag(W, H).

    Translations are in halves of each side before and after. Of an element of the algebra too: the exponential of the
    result is the conjugate of the exponential, so exponentiate after this map where shifts and rotations mix.
    """
    aspect = width / height
    factors = [[1.0, 1 / aspect, 1.0], [aspect, 1.0, 1.0], [1.0, 1.0, 1.0]]
    return transforms * transforms.new_tensor(factors)


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
        raise ShapeError(f"Images must be (N, C, H, W); {tuple(images.shape)} came. Add missing axes with [:, None].")
    if not images.is_floating_point():
        raise DataError(f"Images must be floating; {images.dtype} came. Pass images.float() / 255 if they are bytes.")
    if matrices.ndim != 4 or matrices.shape[-2:] != (3, 3) or len(matrices) != len(images):
        raise ShapeError(
            f"Matrices must be (N, S, 3, 3) with N = {len(images)} as the images; {tuple(matrices.shape)} came. "
            "Pass S affine matrices per image."
        )
    if padding not in PADDINGS:
        raise StructureError(f"Padding must be one of {', '.join(PADDINGS)}; {padding!r} came. Choose one of them.")
