"""Flips and small shifts of images during weight updates (paper 2, App. F.6); an evidence never sees them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from .._errors import DataError
from ..noise import Stream, uniform

__all__ = ["REACH", "flips_and_shifts"]

REACH = 4  # pixels


def flips_and_shifts(x: Float[Tensor, "N C H W"], index: Int[Tensor, " N"], seed: int) -> Float[Tensor, "N C H W"]:
    """Images flipped left to right with probability ½, then shifted by −4 to 4 whole pixels in x and in y.

    Each image has its own flip and shift, functions of the seed and its index; what comes in from outside is 0. A
    `train_transform` of `fit`.

    Arguments:
        x: The images, with sides of at least 4 pixels.
        index: The identity of each.
        seed: Any integer; `fit` passes another one each epoch.
    """
    num_data, _, height, width = x.shape
    if min(height, width) < REACH:
        raise DataError(
            f"Shifts of {REACH} pixels need images with sides of at least {REACH}; {height}×{width} came. Leave the "
            "augmentation of weight updates out."
        )
    draws = uniform(seed, index, (3,), stream=Stream.GENERAL, dtype=torch.float64)
    flipped = torch.where((draws[:, 0] < 0.5)[:, None, None, None], x.flip(-1), x)
    starts = (draws[:, 1:] * (2 * REACH + 1)).long()  # from 0, a shift by +REACH, to 2·REACH, one by −REACH
    rows = starts[:, 0, None] + torch.arange(height, device=x.device)
    columns = starts[:, 1, None] + torch.arange(width, device=x.device)
    data = torch.arange(num_data, device=x.device)[:, None, None]
    moved = pad(flipped, (REACH,) * 4).permute(0, 2, 3, 1)[data, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous()
