"""Data other than images: signals, point clouds, volumes and tables, from arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float32
from torch import Tensor

from .._types import Batch
from ..errors import DataError
from .dataset import Dataset, checked, checked_targets, labels_from, pixels_from, scaled

Layout = Literal["images", "signals", "points", "volumes", "space", "table", "features"]


@dataclass(frozen=True)
class Reading:
    """How the arrays and files of a source are read.

    Arguments:
        layout: "images", (N, H, W), (N, H, W, C) or (N, C, H, W); "signals", (N, T) or (N, C, T); "points", (N, P, 3);
            "volumes", (N, D, H, W) or (N, C, D, H, W); "space", one of these two; "table", (N, F); or
            "features", a table where there are two axes, else images.
        keys: The names of the arrays of an `.npz`: data and labels, and those of the test part; by default x_train and
            y_train and, where they are there, x_test and y_test.
        size: The side of the square that images of a folder are brought to where they differ in size or are not square.
        regression: Whether the targets are real numbers, (N,) or (N, K).
        targets: The names of the columns of a `.csv` that are predicted from the others.

    Example:
        >>> from covary.data import Reading
        >>> Reading("signals", keys=("ecg", "beat")).layout
        'signals'
    """

    layout: Layout = "images"
    keys: tuple[str, ...] = ()
    size: int | None = None
    regression: bool = False
    targets: tuple[str, ...] = ()


IMAGES = Reading()


def signals_from(values: Tensor, origin: str) -> Float32[Tensor, "N C T"]:
    """Signals (N, C, T) of (N, T) or (N, C, T); values are not rescaled."""
    _require(values, (2, 3), "(N, T) or (N, C, T)", origin)
    return _finite(values if values.ndim == 3 else values.unsqueeze(1), origin)


def points_from(values: Tensor, origin: str) -> Float32[Tensor, "N P 3"]:
    """Point clouds (N, P, 3); values are not rescaled."""
    _require(values, (3,), "(N, P, 3)", origin)
    if values.shape[2] != 3:
        raise DataError(f"{origin} has shape {tuple(values.shape)}: expected (N, P, 3), coordinates in the last axis.")
    return _finite(values, origin)


def volumes_from(values: Tensor, origin: str) -> Float32[Tensor, "N C D H W"]:
    """Volumes (N, C, D, H, W) of (N, D, H, W) or (N, C, D, H, W); bytes are divided by 255."""
    _require(values, (4, 5), "(N, D, H, W) or (N, C, D, H, W)", origin)
    found = _finite(values if values.ndim == 5 else values.unsqueeze(1), origin)
    return found / 255 if values.dtype == torch.uint8 else found


def table_from(values: Tensor, origin: str) -> Float32[Tensor, "N F"]:
    """Rows of features, (N, F)."""
    _require(values, (2,), "(N, F), a row of features for each datum", origin)
    return _finite(values, origin)


def targets_from(values: Tensor, origin: str) -> Float32[Tensor, "N K"]:
    """Real targets (N, K) of (N,) or (N, K)."""
    _require(values, (1, 2), "(N,) or (N, K), a number or a row of numbers for each datum", origin)
    return _finite(values.reshape(len(values), -1), origin)


READERS: Mapping[Layout, Callable[[Tensor, str], Tensor]] = {
    "images": pixels_from,
    "signals": signals_from,
    "points": points_from,
    "volumes": volumes_from,
    "space": lambda values, origin: (points_from if values.ndim == 3 else volumes_from)(values, origin),
    "table": table_from,
    "features": lambda values, origin: (table_from if values.ndim == 2 else pixels_from)(values, origin),
}


def read_pair(x: Tensor, y: Tensor, reading: Reading, origin: tuple[str, str], known: bool = False) -> Batch:
    """Data in their layout, and labels or targets.

    Arguments:
        known: Whether images are (N, C, H, W) with any number C of channels, as in a `Dataset`.
    """
    data = scaled(x, origin[0]) if known and reading.layout == "images" else READERS[reading.layout](x, origin[0])
    return data, targets_from(y, origin[1]) if reading.regression else labels_from(y, origin[1])


def read_dataset(parts: Sequence[Batch], reading: Reading, origin: str, name: str) -> Dataset:
    """Data set of a training part and, possibly, a test part, checked."""
    train = parts[0]
    test = parts[1] if len(parts) > 1 else (train[0][:0].clone(), train[1][:0].clone())
    return (checked_targets if reading.regression else checked)(train, test, origin, name)


def _require(values: Tensor, num_axes: tuple[int, ...], expected: str, origin: str) -> None:
    if values.ndim not in num_axes or 0 in values.shape[1:]:
        raise DataError(f"{origin} has shape {tuple(values.shape)}: expected {expected}.")


def _finite(values: Tensor, origin: str) -> Float32[Tensor, "..."]:
    found = values.to(torch.float32)
    if not found.isfinite().all():
        row = int((~found.isfinite()).flatten(1).any(1).nonzero()[0])
        raise DataError(f"{origin} has NaN or infinity in datum {row}: expected finite numbers. Fix or remove it.")
    return found.contiguous()
