"""Checksums: are the files of a data set the published ones?"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from .packed import open_unpacked
from .places import PACKINGS, locate, source_of

_CHUNK = 1 << 20


class FileCheck(NamedTuple):
    """One file of a data set: whether its content has the published checksum, and why it has not."""

    path: str
    verified: bool
    problem: str | None


def verify(name: str, data_dir: str | Path | None = None) -> tuple[FileCheck, ...]:
    """The checks of every file of the data set called `name` that is there, found as `load` finds it.

    The SHA-256 is that of the content, so a file may be packed or not. Files in another format, such as
    `batches.meta.txt`, take no part.
    """
    sums = source_of(name).sums
    return tuple(_check(path, sums[_unpacked_name(path)]) for path in locate(name, data_dir))


def content_sum(path: Path) -> str:
    """The SHA-256 of the unpacked content of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_unpacked(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check(path: Path, expected: str) -> FileCheck:
    found = content_sum(path)
    if found == expected:
        return FileCheck(str(path), True, None)
    problem = f"{path} has the SHA-256 {found}: expected {expected}. Fetch it again."
    return FileCheck(str(path), False, problem)


def _unpacked_name(path: Path) -> str:
    packing = next(packing for packing in PACKINGS if path.name.endswith(packing))
    return path.name.removesuffix(packing)
