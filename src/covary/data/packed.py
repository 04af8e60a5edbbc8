"""Bytes of files that may be packed with gzip or xz, recognized by how they begin."""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DataError

_GZIP_MAGIC, _XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00"


def read_unpacked(path: Path, limit: int = -1) -> bytes:
    """The unpacked bytes of a file, or the first `limit` of them."""
    with open_unpacked(path) as stream:
        return stream.read(limit)


@contextmanager
def open_unpacked(path: Path) -> Iterator[io.BufferedIOBase]:
    """A stream of the unpacked bytes of a file; damage met while it is read is a `DataError` that names the file."""
    try:
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
