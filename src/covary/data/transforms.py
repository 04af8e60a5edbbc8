"""Data sets derived from others: resized, in quadrants, with a known symmetry; flips and shifts of images."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import interpolate, pad

from .._text import meant
from ..errors import DataError
from ..groups import affine_generators, exponential, warp
from ..noise import Stream, fold, uniform
from .dataset import Dataset, checked, require_memory

LEAST_SIDE = 4
_RESIZE_CHUNK = 5000  # images at a time, to bound the memory of intermediate results
_CHUNK = 2000  # the same for grids and canvases


def resized(dataset: Dataset, side: int) -> Dataset:
    """Data set with square images of `side` pixels, by bilinear interpolation in float32 without antialiasing.

    Arguments:
        dataset: The data set, of square images; images of that size are not changed.
        side: The new height and width, at least 4.

    Example:
        >>> from covary.data import load, resized
        >>> resized(load("mnist-mini"), 32).x_train.shape
        torch.Size([5000, 1, 32, 32])
    """
    require_square(dataset, "a new size")
    if side < LEAST_SIDE:
        raise DataError(f"Expected a size of at least {LEAST_SIDE} pixels, got {side}.")
    if dataset.x_train.shape[-1] == side:
        return dataset
    require_space(dataset, side)
    train, test = (torch.cat([to_side(part, side) for part in x.split(_RESIZE_CHUNK)]) for x in dataset[0:3:2])
    return dataset._replace(x_train=train, x_test=test, name=f"{dataset.name}, {side}×{side}")


def to_side(images: Float[Tensor, "N C H W"], side: int) -> Float[Tensor, "N C {side} {side}"]:
    """Images resampled to `side` × `side` pixels: bilinear, `align_corners=False`, no antialiasing."""
    if not len(images):  # torch does not resample 0 images
        return images.new_zeros(0, images.shape[1], side, side)
    return interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=False)


def require_space(dataset: Dataset, side: int) -> None:
    """Raise `DataError` if images of that side are larger than the memory of this machine."""
    numbers = sum(len(part) * part.shape[1] * side**2 for part in (dataset.x_train, dataset.x_test))
    require_memory(f"{dataset.name} at {side}×{side} pixels", numbers * dataset.x_train.element_size())


def require_square(dataset: Dataset, what: str) -> None:
    """Raise `DataError` if images are not square, or too small to resample."""
    height, width = dataset.x_train.shape[-2:]
    if height != width:
        raise DataError(
            f"Expected square images for {what}, got {height}×{width} pixels in {dataset.name}. Pad or crop them "
            "first, or leave out size and task (--set size=none)."
        )
    if height < LEAST_SIDE:
        raise DataError(
            f"Expected images with a side of at least {LEAST_SIDE} pixels for {what}, got {height} in {dataset.name}."
        )


def channel_moments(
    images: Float[Tensor, "N C ..."], names: Sequence[str] = ()
) -> tuple[Float[Tensor, "C"], Float[Tensor, "C"]]:
    """Mean and standard deviation of each channel over images and pixels, in float64, for `Standardized`.

    Arguments:
        images: The training images, or other data with channels or columns in their second axis; a constant one raises
            `DataError`.
        names: The names of the columns, for this error.

    Example:
        >>> import torch
        >>> from covary.data import channel_moments
        >>> channel_moments(torch.tensor([0.0, 1.0]).view(1, 1, 1, 2))
        (tensor([0.5000], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    others = (0, *range(2, images.ndim))
    means = images.mean(others, dtype=torch.float64)
    about = means.reshape(-1, *[1] * (images.ndim - 2))
    # in chunks: all images in double precision may not fit into memory
    squares = [(part.double() - about).square().sum(others) for part in images.split(_RESIZE_CHUNK)]
    deviations = (torch.stack(squares).sum(0) / images[:, 0].numel()).sqrt()
    if not bool((deviations > 0).all()):
        channel, what = int((deviations <= 0).nonzero()[0]), "column" if images.ndim == 2 else "channel"
        name = f"'{names[channel]}'" if names else channel
        raise DataError(
            f"Expected {what}s that vary, got constant {what} {name} of the training data. Remove the {what}, or do "
            "not standardize (--set standardize=false)."
        )
    return means, deviations


TASKS = ("none", "digit", "quadrant")
QUADRANTS = ("upper left", "upper right", "lower left", "lower right")
QUADRANT_SIDE = 32  # pixels of the canvas after resampling, as in the paper
_USE = 0x51  # makes these draws independent of those of `symmetrize` with the same seed


def in_quadrants(dataset: Dataset, task: str, seed: int, side: int = QUADRANT_SIDE) -> Dataset:
    """Data set with each image in a random quadrant of a canvas of twice its side (paper 2, Sec. 6.1).

    The canvas is 0 elsewhere, and is resampled to `side` × `side` pixels as by `resized`. The quadrant is uniform, a
    function of the seed, the split and the position of the image. With C original classes, the new label is y
    ("digit", C classes: shifts are a symmetry) or y + C·quadrant ("quadrant", 4·C classes: they are not), with the
    quadrants upper left, upper right, lower left and lower right.

    Arguments:
        dataset: The data set, of square images.
        task: "digit", "quadrant", or "none" for the unchanged data set.
        seed: Any integer.
        side: The height and width of the resampled canvas.

    Example:
        >>> from covary.data import in_quadrants, load
        >>> shifted = in_quadrants(load("mnist-mini"), "quadrant", seed=0)
        >>> shifted.x_train.shape, len(shifted.class_names)
        (torch.Size([5000, 1, 32, 32]), 40)
    """
    if task not in TASKS:
        question = meant(task, (*TASKS, "regression"))
        raise DataError(f"Expected a task among {', '.join(TASKS)} and regression, got '{task}'.{question}")
    if task == "none":
        return dataset
    require_square(dataset, f"the task '{task}'")
    if side < LEAST_SIDE:
        raise DataError(f"Expected a size of at least {LEAST_SIDE} pixels, got {side}.")
    require_space(dataset, side)
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
    """Raise `DataError` if a class has no training image."""
    missing = sorted(set(range(len(names))) - set(labels.tolist()))
    if missing:
        raise DataError(
            f"{dataset}, with {len(labels)} images, has no training image of class '{names[missing[0]]}': expected "
            f"one for each of {len(names)} classes. Use a larger --num-train, or none."
        )


def _quadrants(seed: int, num_data: int) -> Int[Tensor, " N"]:
    """Quadrant of each datum, uniform on 0, 1, 2, 3."""
    return (4 * uniform(seed, torch.arange(num_data), dtype=torch.float64)).long()


def _placed(
    images: Float[Tensor, "N C H H"], quadrants: Int[Tensor, " N"], side: int
) -> Float[Tensor, "N C {side} {side}"]:
    """Images in their quadrants, resampled."""
    chunks = zip(images.split(_CHUNK), quadrants.split(_CHUNK), strict=True)
    return torch.cat([to_side(_canvas(part, places), side) for part, places in chunks])


def _canvas(images: Float[Tensor, "N C H H"], quadrants: Int[Tensor, " N"]) -> Float[Tensor, "N C K K"]:
    num_data, num_channels, size, _ = images.shape
    canvas = images.new_zeros(num_data, num_channels, 2, size, 2, size)
    canvas[torch.arange(num_data), :, quadrants // 2, :, quadrants % 2] = images
    return canvas.reshape(num_data, num_channels, 2 * size, 2 * size)


_AMOUNTS: Mapping[str, str] = MappingProxyType(
    {
        "rotate": "DEGREES above 0, at most 180",
        "translate": "PIXELS above 0, at most the side of the images",
        "scale": "FACTOR above 1",
    }
)


def symmetrize(dataset: Dataset, spec: str, seed: int) -> Dataset:
    """Data set with each image, training and test, under its own random transform, in float32.

    A transform is a function of the seed, the split and the position of its image. Images are resampled bilinearly,
    with zeros outside.

    Arguments:
        dataset: The data set to transform.
        spec: "rotate:DEGREES", uniform in ±DEGREES; "translate:PIXELS", uniform in ±PIXELS in x and y, independently;
            "scale:FACTOR", isotropic, log-uniform between 1/FACTOR and FACTOR; or "none".
        seed: Any integer.

    Example:
        >>> from covary.data import load, symmetrize
        >>> symmetrize(load("mnist-mini"), "rotate:90", seed=0).name
        'mnist-mini, rotate:90'
    """
    widths = true_widths(spec, dataset.x_train.shape[-2], dataset.x_train.shape[-1])
    if not widths:
        return dataset
    x_train, x_test = (
        _transformed(images, widths, spec.startswith("scale"), fold(seed, part))
        for part, images in enumerate((dataset.x_train, dataset.x_test))
    )
    return dataset._replace(x_train=x_train, x_test=x_test, name=f"{dataset.name}, {spec}")


def true_widths(spec: str, height: int, width: int) -> dict[str, float]:
    """Widths of a symmetry by the names and in the units of `Affine2d`, empty for "none".

    Arguments:
        spec: As in `symmetrize`.
        height: The height of the images.
        width: Their width.

    Example:
        >>> from covary.data import true_widths
        >>> true_widths("translate:7", 28, 28)
        {'shift_x': 0.5, 'shift_y': 0.5}
    """
    if spec == "none":
        return {}
    kind, _, text = spec.partition(":")
    amount = _amount(text)
    if kind == "rotate" and 0 < amount <= 180:
        return {"rotation": math.radians(amount)}
    if kind == "translate" and 0 < amount <= min(height, width):
        return {"shift_x": 2 * amount / width, "shift_y": 2 * amount / height}
    if kind == "scale" and 1 < amount < math.inf:
        return {"scale_x": math.log(amount), "scale_y": math.log(amount)}
    if kind in _AMOUNTS:
        raise DataError(
            f"Expected {kind}:{_AMOUNTS[kind]} as a symmetry of images of {height}×{width} pixels, got '{spec}'."
        )
    kinds = ", ".join(f"{name}:{text.split()[0]}" for name, text in _AMOUNTS.items())
    question = meant(kind, _AMOUNTS, spec.removeprefix(kind))
    raise DataError(f"Expected a symmetry {kinds} or none, for example rotate:90, got '{spec}'.{question}")


def _amount(text: str) -> float:
    """Number in a spec, or NaN, which fails every comparison."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _transformed(
    images: Float[Tensor, "N C H W"], widths: Mapping[str, float], joint: bool, seed: int
) -> Float[Tensor, "N C H W"]:
    """Images under one transform each, exp(Σ ε_i w_i G_i), ε uniform on [−1, 1) and, if joint, the same for all i."""
    index = torch.arange(len(images))
    shape = (1 if joint else len(widths),)
    noise = uniform(seed, index, shape, stream=Stream.SYMMETRIZE, dtype=torch.float64)
    amounts = (2 * noise - 1) * torch.tensor(list(widths.values()), dtype=torch.float64)
    algebra = torch.einsum("nk,kij->nij", amounts, affine_generators(tuple(widths), dtype=torch.float64))
    matrices = exponential(algebra).to(images).unsqueeze(1)
    parts = zip(images.split(_CHUNK), matrices.split(_CHUNK), strict=True)
    return torch.cat([warp(part, maps)[:, 0] for part, maps in parts])


_SHIFT_FRACTION = 8  # shifts are at most an eighth of a side


def flips_and_shifts(x: Float[Tensor, "N C H W"], index: Int[Tensor, " N"], seed: int) -> Float[Tensor, "N C H W"]:
    """Images flipped left to right with probability ½, then shifted by whole pixels in x and in y.

    Shifts are uniform on −r to r with r an eighth of the side, rounded down, and at least 1: 4 of 32 pixels. Each image
    has its own flip and shift, functions of the seed and its index; pixels from outside are 0 (paper 2, App. F.6).

    Arguments:
        x: The images, with sides of at least 4 pixels.
        index: The identity of each.
        seed: Any integer; `fit` passes another one each epoch.

    Example:
        >>> import torch
        >>> from covary.data import flips_and_shifts
        >>> flips_and_shifts(torch.rand(5, 1, 8, 8), torch.arange(5), seed=0).shape
        torch.Size([5, 1, 8, 8])
    """
    num_data, _, height, width = x.shape
    if min(height, width) < LEAST_SIDE:
        raise DataError(
            f"Expected images with sides of at least {LEAST_SIDE} pixels to shift, got {height}×{width}. Train "
            "without this transform."
        )
    draws = uniform(seed, index, (3,), stream=Stream.GENERAL, dtype=torch.float64)
    flipped = torch.where((draws[:, 0] < 0.5)[:, None, None, None], x.flip(-1), x)
    down, across = max(height // _SHIFT_FRACTION, 1), max(width // _SHIFT_FRACTION, 1)
    # the corner at which a padded image is cropped: from 0, the largest shift one way, to twice that
    top = (draws[:, 1] * (2 * down + 1)).long()
    left = (draws[:, 2] * (2 * across + 1)).long()
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    data = torch.arange(num_data, device=x.device)[:, None, None]
    moved = pad(flipped, (across, across, down, down)).permute(0, 2, 3, 1)[data, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous()
