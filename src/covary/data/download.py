"""Published data sets from the network, verified by checksum before they are put in place."""

import hashlib
import http.client
import os
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedWriter
from pathlib import Path, PurePosixPath

from .._types import Progress
from ..errors import DataError
from .sources import Download, Source, cache_dir, content_sum, existing_file, source_of

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 30.0  # without a byte
_MOST_SECONDS = 3600.0  # for a file
_STALE_SECONDS = 3600.0


def fetch(name: str, data_dir: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Download the published files of a data set, and return their folder.

    Files with the right checksum are not downloaded again. A file appears only when it is complete and verified.

    Arguments:
        name: "mnist", "fashion-mnist" or "cifar-10".
        data_dir: The directory of the folder, created if it does not exist; by default the user's cache.
        progress: A function that is called with the name of each file and the fraction of all that is done.

    Example:
        >>> from covary.data import fetch
        >>> fetch("mnist")  # doctest: +SKIP
        PosixPath('~/.cache/covary/mnist')
    """
    source = source_of(name)
    if source.embedded is not None:
        raise DataError(f"'{name}' is part of the package. Load it with covary.data.load('{name}').")
    if not source.downloads:
        raise DataError(
            f"'{name}' is not fetched: no checksum of its files is known. Put {', '.join(source.sums)} into a folder "
            f"{name} of a data directory."
        )
    folder = (cache_dir() if data_dir is None else Path(data_dir)) / name
    fetch_files(source, folder, progress if progress is not None else lambda file, fraction: None)
    return folder


def fetch_files(source: Source, folder: Path, progress: Progress) -> None:
    """Download every file of a source into a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be created: {error.strerror}. Name another directory.") from error
    total = len(source.downloads)
    for done, download in enumerate(source.downloads):
        if not _is_there(source, download, folder):
            _fetch_one(download, folder, partial(_report, progress, done, total))
        _report(progress, done, total, _last_part(download.address), 1.0)
    for stale in folder.glob(".*.part"):  # of a download that was killed; a running one writes more often
        if time.time() - stale.stat().st_mtime > _STALE_SECONDS:
            stale.unlink(missing_ok=True)


def _report(progress: Progress, done: int, total: int, file: str, part: float) -> None:
    progress(file, (done + part) / total)


def _fetch_one(download: Download, folder: Path, progress: Progress) -> None:
    name = _last_part(download.address)
    try:
        with _temporary_file(folder, name) as (file, path):
            found = _copy_answer(download, file, partial(progress, name))
            if found != download.sha256:
                raise DataError(
                    f"Expected {download.address} with SHA-256 {download.sha256}, got {found}. No file was written; "
                    "try again, or download it yourself from a source that you trust."
                )
            if download.members:
                _unpack(path, download, folder)
            else:
                _put_in_place(file, path, folder / name)
    except OSError as error:
        raise DataError(f"{folder / name} cannot be written: {error.strerror or error}.") from error


def _copy_answer(download: Download, file: BufferedWriter, progress: Callable[[float], None]) -> str:
    """Write the bytes at an address into `file`, and return their SHA-256."""
    digest, num_bytes = hashlib.sha256(), 0
    for chunk, length in _chunks(download.address):
        num_bytes += len(chunk)
        if max(num_bytes, length) > download.max_bytes:
            raise DataError(
                f"Expected at most {download.max_bytes:,} bytes at {download.address}, got more. No file was written; "
                "download it yourself from a source that you trust."
            )
        digest.update(chunk)
        file.write(chunk)
        progress(num_bytes / length if length else 0.0)
    file.flush()
    return digest.hexdigest()


def _chunks(address: str) -> Iterator[tuple[bytes, int]]:
    """Bytes at an address in chunks, each with the total length, 0 if the server does not send it."""
    num_bytes = length = 0
    started = time.monotonic()
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:
            length = answer.length or 0
            while chunk := answer.read1(_CHUNK):  # what is there: a whole chunk of a slow server may take for ever
                num_bytes += len(chunk)
                if time.monotonic() - started > _MOST_SECONDS:
                    raise DataError(
                        f"{address} sent {num_bytes:,} bytes in {_MOST_SECONDS:.0f} seconds, and not all of them. No "
                        "file was written; try again, or download it yourself."
                    )
                yield chunk, length
    except urllib.error.HTTPError as error:
        raise DataError(f"{address} answered {error.code} {error.reason}. Download it yourself, or retry.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{address} cannot be fetched ({reason}). Check the connection, and try again.") from error
    if num_bytes < length:
        raise DataError(f"{address} ended after {num_bytes} of {length} bytes. No file was written; try again.")


def _unpack(archive: Path, download: Download, folder: Path) -> None:
    """Extract the members of an archive, each under the last component of its path alone."""
    wanted = set(download.members)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name in wanted and member.isreg() and (content := tar.extractfile(member)) is not None:
                    with _temporary_file(folder, _last_part(member.name)) as (file, path):
                        while chunk := content.read(_CHUNK):
                            file.write(chunk)
                        _put_in_place(file, path, folder / _last_part(member.name))
                    wanted.remove(member.name)
    except (tarfile.TarError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{download.address} is a damaged archive ({reason}). Try again.") from error
    if wanted:
        raise DataError(f"{download.address} lacks {', '.join(sorted(wanted))}, as if of another version.")


@contextmanager
def _temporary_file(folder: Path, name: str) -> Iterator[tuple[BufferedWriter, Path]]:
    """Temporary file in the folder, removed at the end unless it was put in place."""
    number, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".part")
    try:
        with open(number, "wb") as file:
            yield file, Path(path)
    finally:
        Path(path).unlink(missing_ok=True)


def _put_in_place(file: BufferedWriter, path: Path, place: Path) -> None:
    """Move a complete file to its place, durably."""
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows renames no open file
    path.chmod(0o644)  # a temporary file is readable by its owner only
    path.replace(place)


def _is_there(source: Source, download: Download, folder: Path) -> bool:
    """Whether the folder has every file of a download, with the right content."""
    names = [_last_part(member) for member in download.members] or [_last_part(download.address).removesuffix(".gz")]
    for name in names:
        path = existing_file(folder / name)
        if path is None or not _has_sum(path, source.sums.get(name)):
            return False
    return True


def _has_sum(path: Path, expected: str | None) -> bool:
    try:
        return expected is None or content_sum(path) == expected
    except DataError:  # damaged: to be fetched again
        return False


def _last_part(path: str) -> str:
    return PurePosixPath(path).name
