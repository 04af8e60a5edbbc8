"""Sampled transforms of images as matrices, wherever they are affine."""

from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from .affine import Affine2d
from .composed import Composed
from .correlated import Correlated
from .finite import FiniteGroup
from .protocol import Augmentation


def affine_maps(
    augment: Augmentation, noise: Float[Tensor, "N S K"], height: int, width: int
) -> Float[Tensor, "N S 3 3"] | None:
    r"""Matrices from output to input coordinates on [−1, 1]² of sampled transforms; None where one is not affine.

    Parts one after the other have the product :math:`T_1 T_2 \cdots`: the last one's output is where the way begins.

    Arguments:
        augment: The distribution; one of the user's own is not known to be affine.
        noise: Its noise.
        height: The height of the images.
        width: Their width.
    """
    if isinstance(augment, Affine2d | Correlated):
        return augment.matrices(augment.coefficients(noise), height, width)
    if isinstance(augment, FiniteGroup):
        return augment.matrices(noise)
    if isinstance(augment, Composed):
        own = zip(augment.parts, noise.split(augment.noise_sizes, dim=-1), strict=True)
        parts = [affine_maps(part, part_noise, height, width) for part, part_noise in own]
        known = [part for part in parts if part is not None]
        return reduce(torch.matmul, known) if len(known) == len(parts) else None
    return None
