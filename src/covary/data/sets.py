"""Data sets by name, path or function, and images and other data without labels, to predict."""

import contextlib
import os
import re
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float32
from torch import Tensor

from .._text import is_plain, meant
from ..errors import DataError
from .arrays import first_array, load_arrays, load_function, read_npz
from .binary import CIFAR_100_RECORDS, RECORDS_PER_FILE, idx_shape, load_cifar, load_cifar_100, load_idx
from .dataset import Dataset
from .folders import images_below, load_folder
from .layouts import IMAGES, READERS, Reading
from .sources import NAMES, directory, locate, source_of
from .sources import verify as verify_files
from .tables import load_table
from .transforms import to_side

_READERS = {"idx": load_idx, "cifar": load_cifar, "cifar-100": load_cifar_100}
_KINDS = (
    f"one of {', '.join(NAMES)}, an .npz archive, a folder of class folders of images, a .csv, or "
    "package.module:function"
)
_MOST_LISTED = 1000  # entries of a folder that are compared with a name
_REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


class Listing(NamedTuple):
    """One data set: the number of its images and its folder, or what is wrong and what to do."""

    name: str
    num_train: int | None
    num_test: int | None
    path: str | None
    problem: str | None
    verified: bool | None = None  # None if not checked, not found, or without a known checksum


def load(source: str | Path, data_dir: str | Path | None = None, reading: Reading = IMAGES) -> Dataset:
    """Data set of a source, with 0 test images if the source has none.

    "mnist-mini" is part of the package. The files of the other names are looked up in `data_dir`, then in the directory
    of the environment variable `COVARY_DATA`, then in the user's cache, into which `fetch` downloads them.

    Arguments:
        source: "mnist-mini", "mnist", "fashion-mnist", "cifar-10" or "cifar-100"; the path of an `.npz` archive with
            x_train, y_train and, optionally, x_test and y_test; the path of a folder of class folders of images, or of
            two such folders `train` and `test`; the path of a `.csv` of numbers, for regression; or
            `package.module:function`.
        data_dir: For a name, a directory with a folder for each data set, such as `mnist/`.
        reading: What arrays are (images, signals, points, volumes or a table) and their names, the size of the images
            of a folder, and the targets of a regression.

    Example:
        >>> from covary.data import load
        >>> digits = load("mnist-mini")
        >>> len(digits.x_train), len(digits.x_test)
        (5000, 2000)
    """
    place = directory(data_dir)
    if isinstance(source, str) and source in NAMES:
        if reading.regression or reading.layout != "images":
            raise DataError(f"Expected a source of your own for {reading.layout} or a regression, got '{source}'.")
        row = source_of(source)
        return _READERS[row.layout](locate(source, place), source, row.class_names)
    path = Path(source)
    _require_existing(source)
    if path.is_dir() and reading.layout == "images" and not reading.regression:
        return load_folder(path, reading.size)
    if path.suffix.lower() == ".npz":
        return load_arrays(path, reading)
    if path.suffix.lower() == ".csv" and reading.regression:
        return load_table(path, reading.targets)
    if is_function(source):
        return load_function(str(source), reading)
    if path.suffix.lower() == ".csv":
        raise DataError(f"Expected a regression of a .csv, got '{source}' for classes. Add --task regression.")
    if path.is_dir():
        raise DataError(
            f"Expected images with classes of a folder, got '{source}' for another task. Save its arrays as .npz."
        )
    raise DataError(f"Expected {_KINDS}, got '{source}', a file of another kind.")


def is_function(source: str | Path) -> bool:
    """Whether `load` calls a function of the user for this source."""
    path = Path(source)
    return not path.is_dir() and path.suffix.lower() not in (".npz", ".csv") and bool(_REFERENCE.fullmatch(str(source)))


def _require_existing(source: str | Path) -> None:
    """Raise `DataError` for a path that does not exist, with a name like it."""
    path = Path(source)
    if is_function(source) or os.path.exists(path):
        return
    question = meant(source, NAMES)
    if not question:
        with contextlib.suppress(OSError, ValueError):  # a folder that cannot be listed, a path with a zero byte
            names = [entry.name for entry in islice(path.parent.iterdir(), _MOST_LISTED) if is_plain(entry.name)]
            found = get_close_matches(path.name, names, n=1)
            question = f" Did you mean '{path.with_name(found[0])}'?" if found else ""
    raise DataError(f"'{source}' is neither a name nor a path that exists.{question} Expected {_KINDS}.")


def listing(data_dir: str | Path | None = None, verify: bool = False) -> list[Listing]:
    """All data sets by name: number of images, folder, and the problem with those that cannot be loaded.

    Arguments:
        data_dir: The directory to look in first, as in `load`.
        verify: Whether to compare the files with their published checksums, which reads all of them.

    Example:
        >>> from covary.data import listing
        >>> row = listing()[0]
        >>> row.name, row.num_train, row.num_test
        ('mnist-mini', 5000, 2000)
    """
    place = directory(data_dir)
    return [_listed(name, place, verify) for name in NAMES]


def _listed(name: str, data_dir: Path | None, verify: bool) -> Listing:
    try:
        files = locate(name, data_dir)
    except DataError as error:
        return Listing(name, None, None, None, str(error))
    try:
        num_train, num_test = _counts(source_of(name).layout, files)
        checks = verify_files(name, data_dir) if verify else ()
    except DataError as error:
        return Listing(name, None, None, None, str(error), False if verify else None)
    problem = next((check.problem for check in checks if not check.verified), None)
    verified = problem is None if checks else None
    return Listing(name, num_train, num_test, str(files[0].parent), problem, verified)


def _counts(layout: str, files: tuple[Path, ...]) -> tuple[int, int]:
    """Numbers of training and test images, without reading them."""
    if layout == "idx":
        return idx_shape(files[0], 3)[0], idx_shape(files[2], 3)[0]
    if layout == "cifar-100":
        return CIFAR_100_RECORDS
    return RECORDS_PER_FILE * (len(files) - 1), RECORDS_PER_FILE


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
    if source not in NAMES:
        _require_existing(source)
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
