"""Data sets by name, path or function."""

import re
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .arrays import load_arrays
from .checksums import verify as verify_files
from .cifar import RECORDS_PER_FILE, load_cifar
from .dataset import Dataset
from .folders import load_folder
from .functions import load_function
from .idx import idx_shape, load_idx
from .places import directory, locate, source_of
from .sources import NAMES

_READERS = {"idx": load_idx, "cifar": load_cifar}
_REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


class Listing(NamedTuple):
    """One line of the list of data sets: what is there, or what to do about it."""

    name: str
    num_train: int | None
    num_test: int | None
    path: str | None
    problem: str | None
    verified: bool | None = None  # None where it was not asked, or nothing was found


def load(source: str | Path, data_dir: str | Path | None = None) -> Dataset:
    """The data set of a source, its test part of 0 rows where the source has none.

    "mnist-mini" comes with the package. The files of the other names are looked up in `data_dir`, then in the
    directory that the environment variable `COVARY_DATA` names, then in the user's cache; `fetch` puts them there.

    Arguments:
        source: One of `NAMES`; the path of an `.npz` archive with x_train, y_train and, if there is a test part,
            x_test and y_test; the path of a folder of class folders of images, or of two such folders `train` and
            `test`; or `package.module:function`.
        data_dir: For a name, a directory that holds a folder for each data set, such as `mnist/`.
    """
    place = directory(data_dir)
    if isinstance(source, str) and source in NAMES:
        row = source_of(source)
        return _READERS[row.layout](locate(source, place), source, row.class_names)
    path = Path(source)
    if path.is_dir():
        return load_folder(path)
    if path.suffix.lower() == ".npz":
        return load_arrays(path)
    if _REFERENCE.fullmatch(str(source)):
        return load_function(str(source))
    kinds = "an .npz archive, a folder of class folders of images, or package.module:function"
    came = "is a file of another kind" if path.is_file() else "is none of these and no path"
    raise DataError(f"No data set is called '{source}': expected one of {', '.join(NAMES)}, {kinds}; it {came}.")


def listing(data_dir: str | Path | None = None, verify: bool = False) -> list[Listing]:
    """Every data set by name, with its sizes and its folder, or with what stands in its way.

    Arguments:
        data_dir: Where to look first, as in `load`.
        verify: Whether to compare the files with their published checksums, which reads all of them.
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
    return Listing(name, num_train, num_test, str(files[0].parent), problem, problem is None if verify else None)


def _counts(layout: str, files: tuple[Path, ...]) -> tuple[int, int]:
    """The numbers of training and test images, without reading them."""
    if layout == "idx":
        return idx_shape(files[0], 3)[0], idx_shape(files[2], 3)[0]
    return RECORDS_PER_FILE * (len(files) - 1), RECORDS_PER_FILE
