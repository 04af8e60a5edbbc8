"""Files that are written whole or not at all, and files that are safe to read."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_LINKS = 40  # one after another, as Linux allows
NUMBER = re.compile("[0-9]{1,9}")  # of an open file; the system has no larger ones


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none: beside its place, flushed to the disk, then moved there."""
    write_whole(path, text.encode("utf-8"))


def write_whole(path: Path, content: bytes) -> None:
    """Write bytes in the same way; the folder's entries, too, are on the disk when this returns.

    A link at the path is replaced, never followed: a folder of somebody else must not direct a file to another place.
    An error names the path, a full disk too.
    """
    with naming(path):
        _make_folder(path.parent)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.unlink(missing_ok=True)  # of a process of the same number, or a link that somebody placed there
        try:
            with beside.open("xb") as file:
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


def write_named(path: Path, content: bytes) -> None:
    """Write bytes to a path that the user named: the target of a link, and through a device, a pipe or an open file.

    An open file, such as /dev/stdout, is continued where it is: what it contains already is kept.
    """
    with naming(path):
        number = _number_of(path)
        if number is None and not _is_special(path):
            write_whole(Path(os.path.realpath(path)), content)
            return
        with open(path if number is None else number, "wb", buffering=0, closefd=number is None) as file:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) or 0 :]


def require_writable(path: Path) -> None:
    """Raise `OSError` that names the path if `write_whole` could not write it; make its folder."""
    with naming(path):
        if path.is_dir() and not path.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _make_folder(path.parent)
        trial = path.with_name(f".{path.name}.{os.getpid()}")
        trial.unlink(missing_ok=True)
        try:
            trial.open("xb").close()
        finally:
            trial.unlink(missing_ok=True)


def require_named_writable(path: Path) -> None:
    """Raise `OSError` that names a path of the user if `write_named` could not write it."""
    with naming(path):
        if _number_of(path) is None and not _is_special(path):
            require_writable(Path(os.path.realpath(path)))


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, if it exists; of a link only the link, a file in its place too.

    It is moved away in one step: what a kill leaves half removed is not in its place.
    """
    remove_rest(folder)
    if folder.exists() or folder.is_symlink():
        folder.replace(_away(folder))
        remove_rest(folder)


def remove_rest(folder: Path) -> None:
    """Remove what a killed `remove_folder` left of a folder."""
    rest = _away(folder)
    if rest.is_symlink() or rest.is_file():
        rest.unlink(missing_ok=True)
    elif rest.exists():
        shutil.rmtree(rest)


def require_regular(path: Path) -> None:
    """Raise `OSError` if the path is a pipe, a device or a folder: reading it could block, or never end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the path in errors of the system, which name a temporary file, or none where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _away(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}-done")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error


def _number_of(path: Path) -> int | None:
    """The number of the open file of this process that a path names, as /dev/stdout does, through links; else None."""
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd") and NUMBER.fullmatch(path.name):
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


def _is_special(path: Path) -> bool:
    """Whether something exists at the path, behind links, that is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
