"""The binary files of CIFAR-10: records of one label byte and 3·32·32 pixel bytes, without a header."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from ..errors import DataError
from .dataset import Dataset, checked, labels_from, pixels_from
from .packed import read_unpacked

RECORDS_PER_FILE = 10_000
_IMAGE = (3, 32, 32)  # planes of red, green and blue, each in row-major order
_RECORD = 1 + 3 * 32 * 32
_CLASS_NAMES = "batches.meta.txt"


def load_cifar(
    files: Sequence[Path], name: str, class_names: Sequence[str], num_records: int = RECORDS_PER_FILE
) -> Dataset:
    """The data set of some training batches and, last, the test batch; packed with xz or not.

    Arguments:
        files: The batches, all in one folder; a file `batches.meta.txt` there names the classes, a line each.
        name: The name of the data set.
        class_names: The names of the classes where there is no such file.
        num_records: The number of images that each batch must hold.
    """
    folder = files[0].parent
    batches = [read_cifar(path, num_records) for path in files]
    train_images, train_labels = (torch.cat(parts) for parts in zip(*batches[:-1], strict=True))
    test_images, test_labels = batches[-1]
    origin = str(folder)
    return checked(
        (pixels_from(train_images, origin), labels_from(train_labels, origin)),
        (pixels_from(test_images, origin), labels_from(test_labels, origin)),
        origin,
        name,
        _named_classes(folder / _CLASS_NAMES, class_names),
    )


def read_cifar(
    path: Path, num_records: int = RECORDS_PER_FILE
) -> tuple[UInt8[Tensor, "N 3 32 32"], UInt8[Tensor, " N"]]:
    """The images and labels of one batch of exactly `num_records` images."""
    expected = num_records * _RECORD
    content = read_unpacked(path, expected + 1)  # one byte more is enough to tell a file that is too long
    if len(content) != expected:
        fault = "is truncated" if len(content) < expected else "has trailing bytes"
        found = len(content) if len(content) < expected else f"more than {expected}"
        raise DataError(
            f"{path} {fault}: {num_records} images of {_RECORD} bytes need {expected}, found {found}. Fetch it again."
        )
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(num_records, _RECORD)
    return records[:, 1:].reshape(num_records, *_IMAGE), records[:, 0]


def _named_classes(path: Path, otherwise: Sequence[str]) -> tuple[str, ...]:
    """The names in the file of class names, where there is one."""
    if not path.is_file():
        return tuple(otherwise)
    try:
        lines = read_unpacked(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text in UTF-8 ({error.reason}). Write one class name a line.") from error
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) != len(otherwise):
        raise DataError(f"{path} names {len(names)} classes: expected {len(otherwise)}, one a line.")
    return names
