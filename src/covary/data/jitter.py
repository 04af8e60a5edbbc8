"""Flips and small shifts of images during weight updates (paper 2, App. F.6); an evidence never sees them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..errors import DataError
from ..noise import Stream, uniform
from .resize import LEAST_SIDE

SHARE = 8  # shifts reach an eighth of a side, 4 of 32 pixels


def flips_and_shifts(x: Float[Tensor, "N C H W"], index: Int[Tensor, " N"], seed: int) -> Float[Tensor, "N C H W"]:
    """Images flipped left to right with probability ½, then shifted by whole pixels in x and in y.

    Shifts are uniform on −r to r with r an eighth of the side, rounded down, and at least 1: 4 of 32 pixels. Each image
    has its own flip and shift, functions of the seed and its index; what comes in from outside is 0. A
    `train_transform` of `fit`.

    Arguments:
        x: The images, with sides of at least 4 pixels.
        index: The identity of each.
        seed: Any integer; `fit` passes another one each epoch.
    """
    num_data, _, height, width = x.shape
    if min(height, width) < LEAST_SIDE:
        raise DataError(
            f"Shifts need images with sides of at least {LEAST_SIDE} pixels, or they lose too much; {height}×{width} "
            "came. Leave the augmentation of weight updates out."
        )
    draws = uniform(seed, index, (3,), stream=Stream.GENERAL, dtype=torch.float64)
    flipped = torch.where((draws[:, 0] < 0.5)[:, None, None, None], x.flip(-1), x)
    down, across = max(height // SHARE, 1), max(width // SHARE, 1)
    # where an image is cut out of its padded self: from 0, the largest shift, to twice that, the largest the other way
    top = (draws[:, 1] * (2 * down + 1)).long()
    left = (draws[:, 2] * (2 * across + 1)).long()
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    data = torch.arange(num_data, device=x.device)[:, None, None]
    moved = pad(flipped, (across, across, down, down)).permute(0, 2, 3, 1)[data, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous()
