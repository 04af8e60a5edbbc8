"""Images and other data without labels, to predict."""

from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float32
from torch import Tensor

from ..errors import DataError
from .arrays import first_array, read_npz
from .folders import images_below
from .layouts import READERS, Reading
from .sets import load
from .transforms import to_side

_ARRAYS = ("x", "x_test", "x_train")  # of an archive, in the order of preference


class Images(NamedTuple):
    """Images, or other data, and the name of each: its file below a folder, otherwise its number."""

    x: Float32[Tensor, "N ..."]
    names: tuple[str, ...]


def load_images(source: str | Path, data_dir: str | Path | None = None, size: int | None = None) -> Images:
    """Images of a source, labeled or not.

    Arguments:
        source: The path of a folder, for all PNG and JPEG files below it, with or without class folders; the path of an
            `.npz` archive with `x`, `x_test` or `x_train`; or what `load` accepts, for its test images or, without any,
            its training images.
        data_dir: The directory to look in first, as in `load`.
        size: The side that images are resampled to, as in training; None for none. Only those of a folder may differ
            in size, or not be square.

    Example:
        >>> from covary.data import load_images
        >>> images = load_images("mnist-mini", size=16)
        >>> images.x.shape, images.names[:2]
        (torch.Size([2000, 1, 16, 16]), ('0', '1'))
    """
    return load_unlabeled(source, data_dir, Reading(size=size))


def load_unlabeled(source: str | Path, data_dir: str | Path | None, reading: Reading) -> Images:
    """Data of a source in the layout of a reading, labeled or not; images as by `load_images`."""
    path, size = Path(source), reading.size
    if path.is_dir():
        x, names = images_below(path, size)
    else:
        x = _from_archive(path, reading) if path.suffix.lower() == ".npz" else _from_dataset(source, data_dir, reading)
        names = tuple(map(str, range(len(x))))
    if size is None or x.shape[-2:] == (size, size):
        return Images(x, names)
    if x.shape[-2] != x.shape[-1]:
        raise DataError(f"Expected square images to resample, got {x.shape[-2]}×{x.shape[-1]} pixels in '{source}'.")
    return Images(to_side(x, size), names)


def _from_archive(path: Path, reading: Reading) -> Tensor:
    name = first_array(path, (*_ARRAYS, *reading.keys[:1]))
    return READERS[reading.layout](read_npz(path, (name,))[name], f"{name} of {path}")


def _from_dataset(source: str | Path, data_dir: str | Path | None, reading: Reading) -> Tensor:
    dataset = load(source, data_dir, reading)
    return dataset.x_test if len(dataset.x_test) else dataset.x_train
