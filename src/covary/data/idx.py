"""IDX files, the format of the MNIST family: a big-endian header, then unsigned bytes in row-major order."""

import gzip
import math
import struct
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from ..errors import DataError
from .dataset import Dataset, checked, labels_from, pixels_from
from .packed import read_unpacked

_UNSIGNED_BYTE = 0x08
_LONGEST_HEADER = 4 + 4 * 255


def load_idx(files: Sequence[Path], name: str, class_names: Sequence[str]) -> Dataset:
    """The data set of four IDX files: images before labels, training before test."""
    train, test = (
        (
            pixels_from(read_idx(images, 3), str(images)),
            labels_from(read_idx(labels, 1), str(labels)),
        )
        for images, labels in (files[:2], files[2:])
    )
    return checked(train, test, str(files[0].parent), name, class_names)


def read_idx(path: Path, num_dims: int) -> UInt8[Tensor, "..."]:
    """The array of an IDX file, packed with gzip or not, of exactly `num_dims` dimensions.

    The sizes in the header are compared with the bytes that are there before any of them is believed.
    """
    content = read_unpacked(path)
    shape = _shape(path, content, num_dims)
    start, expected = 4 + 4 * num_dims, math.prod(shape)
    found = len(content) - start
    if found != expected:
        fault = "is truncated" if found < expected else "has trailing bytes"
        raise DataError(
            f"{path} {fault}: sizes {shape} need {expected} bytes of values, found {found}. Fetch it again."
        )
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=start).reshape(shape)


def idx_shape(path: Path, num_dims: int) -> tuple[int, ...]:
    """The sizes that the header of an IDX file states, without reading its values."""
    return _shape(path, read_unpacked(path, _LONGEST_HEADER), num_dims)


def write_idx(path: Path, values: UInt8[Tensor, "..."]) -> None:
    """One array into one IDX file, packed when the name ends in `.gz`; same values, same bytes."""
    header = struct.pack(f">HBB{values.ndim}I", 0, _UNSIGNED_BYTE, values.ndim, *values.shape)
    content = header + values.contiguous().cpu().numpy().tobytes()
    # A time stamp in the gzip header would give equal arrays unequal checksums.
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0) if path.suffix == ".gz" else content)


def _shape(path: Path, content: bytes, num_dims: int) -> tuple[int, ...]:
    """The sizes in a header, once its magic number, value type and number of dimensions are as expected."""
    if len(content) < 4:
        raise DataError(f"{path} is no IDX file: expected a header of at least 4 bytes, found {len(content)}.")
    zeros, kind, dims = struct.unpack(">HBB", content[:4])
    if zeros != 0:
        raise DataError(f"{path} is no IDX file: expected two zero bytes at the start, found {content[:2].hex(' ')}.")
    if kind != _UNSIGNED_BYTE:
        raise DataError(f"{path} has values of IDX type {kind:#04x}: expected unsigned bytes, {_UNSIGNED_BYTE:#04x}.")
    if dims != num_dims:
        raise DataError(f"{path} has {dims} dimensions: expected {num_dims}. Are image and label files exchanged?")
    if len(content) < 4 + 4 * dims:
        raise DataError(f"{path} is truncated: expected {dims} sizes after the magic number. Fetch it again.")
    shape = struct.unpack(f">{dims}I", content[4 : 4 + 4 * dims])
    if 0 in shape:
        raise DataError(f"{path} is empty: its sizes are {shape}, expected each of them above 0.")
    return shape
