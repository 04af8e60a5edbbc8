"""IDX files (the MNIST family) and CIFAR-10 batches, plain or compressed with gzip or xz."""

import gzip
import io
import lzma
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from .._files import require_regular
from ..errors import DataError
from .dataset import Dataset, checked, labels_from, pixels_from, require_memory

_GZIP_MAGIC, _XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00"


def read_decompressed(path: Path, limit: int = -1) -> bytes:
    """Decompressed bytes of a file, or the first `limit` of them."""
    with open_decompressed(path) as stream:
        return stream.read(limit)


@contextmanager
def open_decompressed(path: Path) -> Iterator[io.BufferedIOBase]:
    """Stream of the decompressed bytes of a file; damaged content raises `DataError` while it is read."""
    try:
        require_regular(path)
        with path.open("rb") as raw:
            start = raw.read(len(_XZ_MAGIC))
            raw.seek(0)
            if start.startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=raw) as stream:
                    yield stream
            elif start == _XZ_MAGIC:
                with lzma.LZMAFile(raw) as stream:
                    yield stream
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        kind = "xz" if path.suffix == ".xz" else "gzip"
        raise DataError(f"{path} is a damaged {kind} file ({error}). Fetch it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


_UNSIGNED_BYTE = 0x08
_BYTES_PER_VALUE = 1 + 4  # a byte, and the float32 that it becomes


def load_idx(files: Sequence[Path], name: str, class_names: Sequence[str]) -> Dataset:
    """Data set of four IDX files: images before labels, training before test."""
    train, test = (
        (pixels_from(read_idx(images, 3), str(images)), labels_from(read_idx(labels, 1), str(labels)))
        for images, labels in (files[:2], files[2:])
    )
    return checked(train, test, str(files[0].parent), name, class_names)


def read_idx(path: Path, num_dims: int) -> UInt8[Tensor, "..."]:
    """Array of an IDX file, compressed or not, of exactly `num_dims` dimensions."""
    start = 4 + 4 * num_dims
    with open_decompressed(path) as stream:
        shape = _shape(path, stream.read(start), num_dims)
        expected = math.prod(shape)
        require_memory(str(path), _BYTES_PER_VALUE * expected)
        content = stream.read(expected + 1)  # one byte more is enough to detect a file that is too long
    _require_length(path, content, expected, f"sizes {shape} need {expected} bytes of values")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(shape)


def _require_length(path: Path, content: bytes, expected: int, need: str) -> None:
    if len(content) != expected:
        fault = "is truncated" if len(content) < expected else "has trailing bytes"
        found = len(content) if len(content) < expected else f"more than {expected}"
        raise DataError(f"{path} {fault}: {need}, found {found}. Fetch it again.")


def idx_shape(path: Path, num_dims: int) -> tuple[int, ...]:
    """Sizes in the header of an IDX file, without reading its values."""
    return _shape(path, read_decompressed(path, 4 + 4 * num_dims), num_dims)


def _shape(path: Path, content: bytes, num_dims: int) -> tuple[int, ...]:
    """Sizes in a header, after its magic number, value type and number of dimensions have been checked."""
    if len(content) < 4:
        raise DataError(f"{path} is not an IDX file: expected a header of at least 4 bytes, found {len(content)}.")
    zeros, kind, dims = struct.unpack(">HBB", content[:4])
    if zeros != 0:
        raise DataError(f"{path} is not an IDX file: expected two zero bytes first, found {content[:2].hex(' ')}.")
    if kind != _UNSIGNED_BYTE:
        raise DataError(f"{path} has values of IDX type {kind:#04x}: expected unsigned bytes, {_UNSIGNED_BYTE:#04x}.")
    if dims != num_dims:
        raise DataError(f"{path} has {dims} dimensions: expected {num_dims}. Image and label files may be exchanged.")
    if len(content) < 4 + 4 * dims:
        raise DataError(f"{path} is truncated: expected {dims} sizes after the magic number. Fetch it again.")
    shape = struct.unpack(f">{dims}I", content[4 : 4 + 4 * dims])
    if 0 in shape:
        raise DataError(f"{path} is empty: its sizes are {shape}, expected each of them above 0.")
    return shape


RECORDS_PER_FILE = 10_000
CIFAR_100_RECORDS = (50_000, 10_000)  # of train.bin and test.bin
_IMAGE = (3, 32, 32)  # planes of red, green and blue, each in row-major order
_PIXELS = 3 * 32 * 32
_CLASS_NAMES, _FINE_NAMES = "batches.meta.txt", "fine_label_names.txt"
_LONGEST_NAMES = 10_000  # bytes


def load_cifar(
    files: Sequence[Path], name: str, class_names: Sequence[str], num_records: int = RECORDS_PER_FILE
) -> Dataset:
    """Data set of training batches and, last, the test batch, compressed or not.

    Arguments:
        files: The batches, all in one folder; a file `batches.meta.txt` there names the classes, a line each.
        class_names: The names of the classes if there is no such file.
    """
    batches = [read_cifar(path, num_records) for path in files]
    names = _named_classes(files[0].parent / _CLASS_NAMES, class_names)
    return _cifar_set(batches, files[0].parent, name, names)


def load_cifar_100(
    files: Sequence[Path], name: str, class_names: Sequence[str], num_records: Sequence[int] = CIFAR_100_RECORDS
) -> Dataset:
    """Data set of `train.bin` and `test.bin`, compressed or not, with the hundred fine labels.

    Arguments:
        files: Both files; a file `fine_label_names.txt` beside them names the classes, a line each.
        class_names: The names of the classes if there is no such file.
    """
    batches = [read_cifar(path, number, num_labels=2) for path, number in zip(files, num_records, strict=True)]
    names = _named_classes(files[0].parent / _FINE_NAMES, class_names)
    return _cifar_set(batches, files[0].parent, name, names)


def _cifar_set(batches: Sequence[tuple[Tensor, Tensor]], folder: Path, name: str, names: Sequence[str]) -> Dataset:
    """The data set of training batches and, last, the test batch."""
    train_images, train_labels = (torch.cat(parts) for parts in zip(*batches[:-1], strict=True))
    test_images, test_labels = batches[-1]
    origin = str(folder)
    return checked(
        (pixels_from(train_images, origin), labels_from(train_labels, origin)),
        (pixels_from(test_images, origin), labels_from(test_labels, origin)),
        origin,
        name,
        tuple(names),
    )


def read_cifar(
    path: Path, num_records: int = RECORDS_PER_FILE, num_labels: int = 1
) -> tuple[UInt8[Tensor, "N 3 32 32"], UInt8[Tensor, " N"]]:
    """Images and labels of one file of exactly `num_records` images.

    Arguments:
        num_labels: The bytes of labels before each image, of which the last is read: that of CIFAR-100's fine class.
    """
    size = num_labels + _PIXELS
    expected = num_records * size
    content = read_decompressed(path, expected + 1)  # one byte more is enough to detect a file that is too long
    _require_length(path, content, expected, f"{num_records} images of {size} bytes need {expected}")
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(num_records, size)
    return records[:, num_labels:].reshape(num_records, *_IMAGE), records[:, num_labels - 1]


def _named_classes(path: Path, otherwise: Sequence[str]) -> tuple[str, ...]:
    """Names in the file of class names, if it exists."""
    if not path.is_file():
        return tuple(otherwise)
    try:
        lines = read_decompressed(path, _LONGEST_NAMES).decode().splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}). Write one class name a line.") from error
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) != len(otherwise):
        raise DataError(f"{path} names {len(names)} classes: expected {len(otherwise)}, one per line.")
    return names
