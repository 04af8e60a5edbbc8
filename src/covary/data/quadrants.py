"""Tasks that do or do not depend on where an object lies: an image in one quadrant of a canvas (paper 2, Sec. 6.1)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError
from ..noise import fold, uniform
from .dataset import Dataset, checked
from .resize import LEAST_SIDE, require_room, require_square, to_side

TASKS = ("none", "digit", "quadrant")
QUADRANTS = ("upper left", "upper right", "lower left", "lower right")
QUADRANT_SIDE = 32  # pixels of the canvas after resampling, as in the paper
_CHUNK = 2000  # images at a time: a canvas has four times the pixels of its image
_USE = 0x51  # keeps these draws apart from those of a symmetry made with the same seed


def in_quadrants(dataset: Dataset, task: str, seed: int, side: int = QUADRANT_SIDE) -> Dataset:
    """The data set with each image, training and test, in a random quadrant of a canvas of twice its side.

    The canvas is 0 elsewhere, and is resampled to `side` × `side` pixels as by `resized`. The quadrant is uniform, a
    function of the seed, the part and the position of the image. With C classes of old, the new label is y ("digit",
    C classes: where the image lies must be ignored) or y + C·quadrant ("quadrant", 4·C classes: it must not be), the
    quadrants being upper left, upper right, lower left and lower right.

    Arguments:
        dataset: The data set, of square images.
        task: "digit", "quadrant", or "none", which leaves the data set as it is.
        seed: Any integer.
        side: The number of rows and of columns that the canvas is resampled to.
    """
    if task not in TASKS:
        raise DataError(f"A task must be one of {', '.join(TASKS)}; '{task}' came.")
    if task == "none":
        return dataset
    require_square(dataset, f"The task '{task}'")
    if side < LEAST_SIDE:
        raise DataError(f"A size must be at least {LEAST_SIDE} pixels; {side} came.")
    require_room(dataset, side)
    labels, names = [dataset.y_train, dataset.y_test], dataset.class_names
    quadrants = [_quadrants(fold(fold(seed, _USE), part), len(y)) for part, y in enumerate(labels)]
    if task == "quadrant":
        labels = [y + len(names) * places for y, places in zip(labels, quadrants, strict=True)]
        names = tuple(f"{name}, {quadrant}" for quadrant in QUADRANTS for name in names)
    _require_all(labels[0], names, dataset.name)
    train, test = [_placed(x, places, side) for x, places in zip(dataset[0:3:2], quadrants, strict=True)]
    name = f"{dataset.name}, {'digit and quadrant' if task == 'quadrant' else 'digit in a quadrant'}"
    return checked((train, labels[0]), (test, labels[1]), name, name, names)


def _require_all(labels: Int[Tensor, " N"], names: tuple[str, ...], dataset: str) -> None:
    """Nothing, or an error for a class that has no training image in its quadrant."""
    missing = sorted(set(range(len(names))) - set(labels.tolist()))
    if missing:
        raise DataError(
            f"{dataset}, with {len(labels)} images, has no training image of class '{names[missing[0]]}': expected "
            f"one for each of {len(names)} classes. Take more images, by a larger --num-train or none."
        )


def _quadrants(seed: int, num_data: int) -> Int[Tensor, " N"]:
    """A quadrant per datum, uniform on 0, 1, 2, 3."""
    return (4 * uniform(seed, torch.arange(num_data), dtype=torch.float64)).long()


def _placed(
    images: Float[Tensor, "N C H H"], quadrants: Int[Tensor, " N"], side: int
) -> Float[Tensor, "N C {side} {side}"]:
    """The images in their quadrants, resampled."""
    chunks = zip(images.split(_CHUNK), quadrants.split(_CHUNK), strict=True)
    return torch.cat([to_side(_canvas(part, places), side) for part, places in chunks])


def _canvas(images: Float[Tensor, "N C H H"], quadrants: Int[Tensor, " N"]) -> Float[Tensor, "N C K K"]:
    num_data, num_channels, size, _ = images.shape
    canvas = images.new_zeros(num_data, num_channels, 2, size, 2, size)
    canvas[torch.arange(num_data), :, quadrants // 2, :, quadrants % 2] = images
    return canvas.reshape(num_data, num_channels, 2 * size, 2 * size)
