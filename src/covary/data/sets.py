"""Data sets by name: tensors in one layout, whatever file they come from."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from .._errors import DataError
from .._types import Batch
from .idx import idx_shape, read_idx
from .places import ENVIRONMENT_VARIABLE, cache_dir, search

__all__ = ["NAMES", "Dataset", "Listing", "listing", "load"]

_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

# Images before labels, training before test.
_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_EMBEDDED = Path(__file__).parent / "mnist_mini"


class Dataset(NamedTuple):
    """A data set for classification: images in [0, 1] with their labels, parted into training and test."""

    x_train: Float32[Tensor, "N C H W"]
    y_train: Int64[Tensor, " N"]
    x_test: Float32[Tensor, "M C H W"]
    y_test: Int64[Tensor, " M"]
    name: str
    class_names: tuple[str, ...]

    @property
    def train(self) -> Batch:
        """The training images with their labels."""
        return self.x_train, self.y_train

    @property
    def test(self) -> Batch:
        """The test images with their labels."""
        return self.x_test, self.y_test


class Listing(NamedTuple):
    """One line of the list of data sets: what is there, or what to do about it."""

    name: str
    num_train: int | None
    num_test: int | None
    path: str | None
    problem: str | None


class _Source(NamedTuple):
    """Where the files of a set lie below a data directory, and what its labels mean."""

    folders: tuple[str, ...]
    class_names: tuple[str, ...]


_SOURCES = {
    "mnist-mini": _Source((), _DIGITS),
    "mnist": _Source(("mnist", "MNIST/raw"), _DIGITS),
    "fashion-mnist": _Source(("fashion-mnist", "FashionMNIST/raw"), _CLOTHES),
}
NAMES = tuple(_SOURCES)


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The data set called `name`, one of `NAMES`.

    "mnist-mini" comes with the package. The files of the others are looked up in `data_dir`, then in the directory
    that the environment variable `COVARY_DATA` names, then in the user's cache.

    Arguments:
        name: One of `NAMES`.
        data_dir: A directory that holds a folder for each data set, such as `mnist/`.
    """
    files = _locate(name, _directory(data_dir))
    class_names = _SOURCES[name].class_names
    x_train, y_train = _labelled_images(files[0], files[1], len(class_names))
    x_test, y_test = _labelled_images(files[2], files[3], len(class_names))
    if x_train.shape[1:] != x_test.shape[1:]:
        sizes = f"{tuple(x_train.shape[2:])} and {tuple(x_test.shape[2:])}"
        raise DataError(f"{files[0]} and {files[2]} hold images of different sizes, {sizes}: expected the same.")
    return Dataset(x_train, y_train, x_test, y_test, name, class_names)


def listing(data_dir: str | Path | None = None) -> list[Listing]:
    """Every data set by name, with its sizes and its folder, or with what stands in its way."""
    directory = _directory(data_dir)
    return [_listed(name, directory) for name in NAMES]


def _directory(data_dir: str | Path | None) -> Path | None:
    """The directory a user named: one that is not there is a slip, not a place to pass over."""
    if data_dir is None or Path(data_dir).is_dir():
        return None if data_dir is None else Path(data_dir)
    raise DataError(f"The data directory {data_dir} is no folder. Name one that exists, or leave it out.")


def _listed(name: str, data_dir: Path | None) -> Listing:
    try:
        files = _locate(name, data_dir)
        num_train, num_test = idx_shape(files[0], 3)[0], idx_shape(files[2], 3)[0]
    except DataError as error:
        return Listing(name, None, None, None, str(error))
    return Listing(name, num_train, num_test, str(files[0].parent), None)


def _locate(name: str, data_dir: Path | None) -> Sequence[Path]:
    """The four files of a data set, in the order of `_FILES`."""
    if name not in _SOURCES:
        raise DataError(f"No data set is called '{name}': expected one of {', '.join(NAMES)}.")
    if name == "mnist-mini":
        return [_EMBEDDED / f"{file}.gz" for file in _FILES]
    found = search(_SOURCES[name].folders, _FILES, data_dir)
    if found.files:
        return found.files
    raise DataError(
        f"Data set '{name}' was not found; looked in {', '.join(found.looked)}. Put its four IDX files "
        f"({_FILES[0]}.gz and so on) into {cache_dir() / name}, or name the directory above that folder by a data "
        f"directory or by ${ENVIRONMENT_VARIABLE}."
    )


def _labelled_images(
    images_path: Path, labels_path: Path, num_classes: int
) -> tuple[Float32[Tensor, "N 1 H W"], Int64[Tensor, " N"]]:
    """Images scaled from bytes to [0, 1], with one label each."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise DataError(f"{images_path} holds {len(images)} images but {labels_path} {len(labels)} labels.")
    highest = int(labels.max())
    if highest >= num_classes:
        raise DataError(f"{labels_path} holds the label {highest}: expected labels from 0 to {num_classes - 1}.")
    return images.unsqueeze(1).to(torch.float32) / 255, labels.to(torch.int64)
