"""Arrays in an `.npz` archive, read without `numpy.load`: nothing is unpickled, no header is believed unseen."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.lib import format as npy
from torch import Tensor

from ..errors import DataError
from .dataset import Dataset, checked, labels_from, pixels_from, without_test
from .memory import require_memory

_TRAINING, _TEST = ("x_train", "y_train"), ("x_test", "y_test")
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_BYTES_PER_VALUE = 4  # a value becomes a float32 on the way to the network


class _Header(NamedTuple):
    """What an array in an archive says of itself."""

    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype[Any]


def load_arrays(path: Path) -> Dataset:
    """The data set of an archive with x_train and y_train and, both or neither, x_test and y_test.

    Images are (N, H, W), (N, H, W, C) or (N, C, H, W), with C = 1 or 3: bytes, or floats that are kept as they are.
    """
    arrays = read_npz(path, _TRAINING, _TEST)
    parts = [
        (pixels_from(arrays[x], f"{x} of {path}"), labels_from(arrays[y], f"{y} of {path}"))
        for x, y in (_TRAINING, _TEST)
        if x in arrays
    ]
    train = parts[0]
    return checked(train, parts[1] if len(parts) > 1 else without_test(train[0]), str(path), path.stem)


def read_npz(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Tensor]:
    """The arrays called `required`, then those called `optional` unless all of these are missing.

    The sizes in a header are compared with the bytes that are there, and with memory, before any of them is believed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            present = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            wanted = [*required, *(optional if present & set(optional) else ())]
            if missing := [name for name in wanted if name not in present]:
                found = ", ".join(sorted(present)) or "none"
                raise DataError(
                    f"{path} lacks {', '.join(missing)}; its arrays are: {found}. Save it with numpy.savez."
                )
            return {name: _read_member(archive, name, path) for name in wanted}
    # RuntimeError: an encrypted member; NotImplementedError: a packing that this Python does not know
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DataError(f"{path} is no .npz archive, or damaged ({error}). Save it with numpy.savez.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def tensor_from(values: Shaped[np.ndarray, "..."], origin: str) -> Tensor:
    """A tensor of the values of an array, in the byte order of this machine."""
    if values.dtype.kind not in "iuf":
        raise DataError(f"{origin} has values of type {values.dtype}: expected plain integers or floats.")
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    # Widths that torch has no type for, or hardly any operations.
    if native.dtype.kind == "u" and native.itemsize > 1:
        native = native.astype(np.int64)
    elif native.dtype.kind == "f" and native.itemsize > 8:
        native = native.astype(np.float64)
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _read_member(archive: zipfile.ZipFile, name: str, path: Path) -> Tensor:
    origin, member = f"{name} of {path}", archive.getinfo(f"{name}.npy")
    with archive.open(member) as stream:
        header = _read_header(stream, origin)
        expected = math.prod(header.shape) * header.dtype.itemsize
        found = member.file_size - stream.tell()
        if found != expected:
            raise DataError(
                f"{origin} is damaged: sizes {header.shape} of {header.dtype} need {expected} bytes, found {found}. "
                "Save it again."
            )
        require_memory(origin, expected + _BYTES_PER_VALUE * math.prod(header.shape))
        values = np.frombuffer(stream.read(expected), dtype=header.dtype)
    try:
        shaped = values.reshape(header.shape, order="F" if header.column_major else "C")
    except ValueError as error:  # two sizes below 0, or beside a 0 one that cannot be counted
        raise DataError(
            f"{origin} is damaged: no {len(values)} values have the sizes {header.shape}. Save it again."
        ) from error
    return tensor_from(shaped, origin)


def _read_header(stream: Any, origin: str) -> _Header:
    try:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"format version {version}")
        header = _Header(*_HEADERS[version](stream))
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{origin} is no plain NumPy array ({reason}). Save it with numpy.savez.") from error
    if header.dtype.hasobject or header.dtype.kind not in "iuf":
        raise DataError(
            f"{origin} has values of type {header.dtype}: expected plain integers or floats, never pickled objects."
        )
    return header
