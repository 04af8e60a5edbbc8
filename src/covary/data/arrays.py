"""Data sets from arrays: an `.npz` archive, read without `numpy.load` or pickle, or a function of the user."""

import io
import lzma
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

from .._files import require_regular
from ..errors import DataError
from ..references import function_of
from .dataset import Dataset, checked, checked_targets, require_memory
from .layouts import IMAGES, Reading, read_dataset, read_pair

_TRAINING, _TEST = ("x_train", "y_train"), ("x_test", "y_test")
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LONGEST_HEADER = 16_384  # bytes; NumPy accepts 10,000 characters
_TEXT = (
    "{} has values of type {}: expected plain integers or floats. Number labels that are text: names, y = "
    "numpy.unique(labels, return_inverse=True)."
)
_BYTES_PER_VALUE = 4  # a value becomes a float32 on the way to the network
# UnicodeDecodeError: the name of a member; RuntimeError: one that is encrypted, or has a compression that this Python
# does not support, a NotImplementedError
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError, RuntimeError)


class _Header(NamedTuple):
    """The header of an array in an archive."""

    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype[Any]


def load_arrays(path: Path, reading: Reading = IMAGES) -> Dataset:
    """Data set of an archive with x_train and y_train and, both or neither, x_test and y_test, or with other names.

    Images are (N, H, W), (N, H, W, C) or (N, C, H, W), with C = 1 or 3: bytes, or floats, which are not rescaled.
    """
    if len(reading.keys) not in (0, 2, 4):
        raise DataError(
            f"Expected two names of arrays, of data and labels, or four, of test data and labels too, got "
            f"{len(reading.keys)}: {', '.join(reading.keys):.200}."
        )
    required, optional = (reading.keys, ()) if reading.keys else (_TRAINING, _TEST)
    arrays = read_npz(path, required, optional)
    names = list(arrays) if not reading.keys else list(reading.keys)
    parts = [
        read_pair(arrays[x], arrays[y], reading, (f"{x} of {path}", f"{y} of {path}"))
        for x, y in zip(names[::2], names[1::2], strict=True)
    ]
    return read_dataset(parts, reading, str(path), path.stem)


def read_npz(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Tensor]:
    """Arrays called `required`, then those called `optional` unless all of these are missing.

    The sizes in a header are compared with the number of bytes, and with memory, before an array is allocated.
    """
    try:
        require_regular(path)
        with zipfile.ZipFile(path) as archive:
            present = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            wanted = [*required, *(optional if present & set(optional) else ())]
            if missing := [name for name in wanted if name not in present]:
                found = ", ".join(sorted(present)) or "none"
                raise DataError(
                    f"{path} lacks {', '.join(missing)}; its arrays are: {found:.400}. Name those of data and labels, "
                    "as in --keys images,labels, or save it with numpy.savez."
                )
            return {name: _read_member(archive, name, path) for name in wanted}
    except _DAMAGE as error:
        raise DataError(f"{path} is not an .npz archive, or damaged ({error}). Save it with numpy.savez.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def first_array(path: Path, names: Sequence[str]) -> str:
    """The first of these names that an archive has; the first of all, which `read_npz` reports missing, otherwise."""
    try:
        require_regular(path)
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
    except (*_DAMAGE, OSError):
        return names[0]
    return next((name for name in names if f"{name}.npy" in present), names[0])


def tensor_from(values: Shaped[np.ndarray, "..."], origin: str) -> Tensor:
    """Tensor with the values of an array, in the byte order of this machine."""
    if values.dtype.kind in "US":
        raise DataError(_TEXT.format(origin, values.dtype))
    if values.dtype.kind not in "iuf":
        raise DataError(f"{origin} has values of type {values.dtype}: expected plain integers or floats.")
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    # Widths for which torch has no dtype, or few operations.
    if native.dtype.kind == "u" and native.itemsize > 1:
        native = native.astype(np.int64)
    elif native.dtype.kind == "f" and native.itemsize > 8:
        native = native.astype(np.float64)
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _read_member(archive: zipfile.ZipFile, name: str, path: Path) -> Tensor:
    origin, member = f"{name} of {path}", archive.getinfo(f"{name}.npy")
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_LONGEST_HEADER))  # a header states its own length, which may be anything
    header = _read_header(start, origin)
    with archive.open(member) as stream:
        stream.read(start.tell())
        expected = math.prod(header.shape) * header.dtype.itemsize
        found = member.file_size - start.tell()
        if found != expected:
            raise DataError(
                f"{origin} is damaged: sizes {header.shape} of {header.dtype} need {expected} bytes, found {found}. "
                "Save it again."
            )
        require_memory(origin, expected + _BYTES_PER_VALUE * math.prod(header.shape))
        values = np.frombuffer(stream.read(expected), dtype=header.dtype)
    try:
        shaped = values.reshape(header.shape, order="F" if header.column_major else "C")
    except ValueError as error:  # two negative sizes, or a 0 beside one that is too large
        raise DataError(
            f"{origin} is damaged: {len(values)} values do not have the sizes {header.shape}. Save it again."
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
        raise DataError(f"{origin} is not a plain NumPy array ({reason}). Save it with numpy.savez.") from error
    if header.dtype.kind in "US":
        raise DataError(_TEXT.format(origin, header.dtype))
    if header.dtype.hasobject or header.dtype.kind not in "iuf":
        raise DataError(
            f"{origin} has values of type {header.dtype}: expected plain integers or floats, never pickled objects."
        )
    return header


_EXPECTED = "a Dataset, (x_train, y_train, x_test, y_test) or (x_train, y_train), of tensors or arrays"


def load_function(reference: str, reading: Reading = IMAGES) -> Dataset:
    """Data set that the function `package.module:function`, called without arguments, returns.

    It returns a `Dataset`, (x_train, y_train, x_test, y_test) or (x_train, y_train), of tensors or arrays in the
    layouts of an `.npz` archive.
    """
    made = function_of(reference, (), f"a function that needs no arguments and returns {_EXPECTED}", DataError)()
    origin = f"x of {reference}", f"y of {reference}"
    if isinstance(made, Dataset):
        # Its layout is known, so any number of channels is accepted.
        train = read_pair(*_tensors((made.x_train, made.y_train), reference), reading, origin, known=True)
        test = read_pair(*_tensors((made.x_test, made.y_test), reference), reading, origin, known=True)
        if reading.regression:
            return checked_targets(train, test, reference, made.name)
        return checked(train, test, reference, made.name, made.class_names)
    if not isinstance(made, tuple | list) or len(made) not in (2, 4):
        got = f"{type(made).__name__} of {len(made)}" if isinstance(made, tuple | list) else type(made).__name__
        raise DataError(f"Expected {_EXPECTED} from '{reference}', got a {got}.")
    parts = [read_pair(*_tensors(made[n : n + 2], reference), reading, origin) for n in range(0, len(made), 2)]
    return read_dataset(parts, reading, reference, reference)


def _tensors(values: Sequence[object], reference: str) -> tuple[Tensor, Tensor]:
    x, y = (_tensor(value, reference) for value in values)
    return x, y


def _tensor(value: object, reference: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return tensor_from(value, reference)
    raise DataError(f"Expected {_EXPECTED} from '{reference}', got a {type(value).__name__} among them.")
