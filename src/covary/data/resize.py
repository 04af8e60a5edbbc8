"""Images of another size, and the moments that a network may standardize them by."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate

from ..errors import DataError
from .dataset import Dataset
from .memory import require_memory

LEAST_SIDE = 4
_CHUNK = 5000  # images at a time: bounds the memory of what lies between


def resized(dataset: Dataset, side: int) -> Dataset:
    """The data set with square images of `side` pixels, by bilinear interpolation in float32 without antialiasing.

    Arguments:
        dataset: The data set, of square images; those that have the size already stay as they are.
        side: The number of rows and of columns, at least 4.
    """
    require_square(dataset, "A new size")
    if side < LEAST_SIDE:
        raise DataError(f"A size must be at least {LEAST_SIDE} pixels; {side} came.")
    if dataset.x_train.shape[-1] == side:
        return dataset
    require_room(dataset, side)
    train, test = (torch.cat([to_side(part, side) for part in x.split(_CHUNK)]) for x in dataset[0:3:2])
    return dataset._replace(x_train=train, x_test=test, name=f"{dataset.name}, {side}×{side}")


def to_side(images: Float[Tensor, "N C H W"], side: int) -> Float[Tensor, "N C {side} {side}"]:
    """Images resampled to `side` × `side` pixels: bilinear, `align_corners=False`, no antialiasing."""
    if not len(images):  # torch refuses to resample no image
        return images.new_zeros(0, images.shape[1], side, side)
    return interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=False)


def require_room(dataset: Dataset, side: int) -> None:
    """Nothing, or an error before images of that side are made which this machine has no memory for."""
    numbers = sum(len(part) * part.shape[1] * side**2 for part in (dataset.x_train, dataset.x_test))
    require_memory(f"{dataset.name} at {side}×{side} pixels", numbers * dataset.x_train.element_size())


def require_square(dataset: Dataset, what: str) -> None:
    """Nothing, or an error for images that are not square, or too small to resample."""
    height, width = dataset.x_train.shape[-2:]
    if height != width:
        raise DataError(
            f"{what} needs square images; those of {dataset.name} have {height}×{width} pixels. Pad or crop them "
            "first, or leave out size and task (--size 0)."
        )
    if height < LEAST_SIDE:
        raise DataError(
            f"{what} needs images with a side of at least {LEAST_SIDE} pixels; those of {dataset.name} have {height}."
        )


def channel_moments(images: Float[Tensor, "N C H W"]) -> tuple[Float[Tensor, "C"], Float[Tensor, "C"]]:
    """Mean and standard deviation of each channel over images and pixels, in float64; a constant one is an error."""
    means = images.mean((0, 2, 3), dtype=torch.float64)
    # in chunks: all images in double precision may be twice what the machine has room for
    squares = [(part.double() - means[:, None, None]).square().sum((0, 2, 3)) for part in images.split(_CHUNK)]
    deviations = (torch.stack(squares).sum(0) / images[:, 0].numel()).sqrt()
    if not bool((deviations > 0).all()):
        channel = int((deviations <= 0).nonzero()[0])
        raise DataError(
            f"Channel {channel} of the training images is constant, so that it cannot be standardized. Leave it out, "
            "or train without standardizing."
        )
    return means, deviations
