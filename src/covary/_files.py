"""A file that is written whole or not at all."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """A whole file or none: written beside its place, flushed to the disk, then moved there."""
    write_whole(path, text.encode("utf-8"))


def write_whole(path: Path, content: bytes) -> None:
    """The same of bytes; the folder's entries, too, are on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)  # there only if something failed on the way
    if hasattr(os, "O_DIRECTORY"):  # a rename is no rename before its folder is written; Windows opens no folders
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
