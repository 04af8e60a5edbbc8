"""A lock on a folder: one process writes into it, an error names it to another."""

import errno
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ._files import naming, require_regular
from .errors import StructureError

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
except ImportError:  # Windows: the content of the file decides alone
    flock = None  # type: ignore[assignment]

LOCK = ".lock"
# how `write_whole` names temporary files
LEFTOVER = re.compile(r"\..+\.(?:jsonl?|safetensors|html|csv|svg|png|pdf|onnx|pt2|md)\.(\d+)")
TRIES = 20  # to read who holds a lock that was taken a moment ago
LOOKS = 5  # at a lock that another process holds
LONGEST = 4096  # bytes of the file


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is missing; remove what killed processes left in it.

    The kernel releases the lock of a process that ends in any way, so a lock of a dead process is free. Where the file
    system has no locks, the process that the file `.lock` names decides: one of another host counts as alive.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    descriptor = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _acquired(folder / LOCK)
        remove_leftovers(folder)
        yield
    finally:
        if descriptor is not None:
            (folder / LOCK).unlink(missing_ok=True)
            os.close(descriptor)
        for path in made:  # a refused run leaves no folder; one with files stays
            with suppress(OSError):
                path.rmdir()


def writer_of(folder: Path) -> Mapping[str, Any] | None:
    """The process that writes to a folder, by "host", "process" and "since"; None if there is none."""
    try:
        require_regular(folder / LOCK)
        with (folder / LOCK).open("rb") as file:
            holder = dict(json.loads(file.read(LONGEST)))
            return holder if _may_be_alive(holder) and _is_held(file.fileno()) else None
    except (OSError, ValueError, TypeError, KeyError):  # absent, or of a process that has not written its name yet
        return None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed; those of other living processes stay."""
    for path in folder.glob(".*"):
        match = LEFTOVER.fullmatch(path.name)
        if match and not (os.name == "posix" and int(match[1]) != os.getpid() and _is_alive(int(match[1]))):
            path.unlink(missing_ok=True)


def _acquired(path: Path) -> int:
    """An open file that holds the lock, with the name of this process in it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            _take(descriptor, path)
            if _is_same(descriptor, path):
                _write_name(descriptor, path)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has removed the file in the meantime: lock the new one


def _write_name(descriptor: int, path: Path) -> None:
    """Write the name of this process into the file that it has locked, or remove the file where that fails."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    mine = {"host": platform.node(), "process": os.getpid(), "since": now}
    try:
        with naming(path):  # a full disk names none
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(mine).encode(), 0)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _take(descriptor: int, path: Path) -> None:
    """Lock an open file, or raise `StructureError` that names the process that has locked it."""
    for _ in range(LOOKS):
        error = _lock_error(descriptor)
        if error is None:
            return
        held = error in (errno.EAGAIN, errno.EACCES)
        if not held:
            break
        time.sleep(0.01)  # a process that looked who writes here, which takes no time, is no writer
    holder = _holder(descriptor, TRIES if held else 1)
    if held or _may_be_alive(holder):
        advice = "" if held else f" If it is dead, remove '{path}'."
        raise StructureError(_refusal(path.parent, holder) + advice)


def _is_held(descriptor: int) -> bool:
    """Whether a process has locked an open file, or may have, where the file system has no locks."""
    return _lock_error(descriptor, shared=True) is not None


def _lock_error(descriptor: int, *, shared: bool = False) -> int | None:
    """The number of the error if an open file cannot be locked now, or None: it is locked until it is closed."""
    if flock is None:
        return errno.ENOLCK
    try:
        flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
    except OSError as error:
        return error.errno or errno.ENOLCK
    return None


def _holder(descriptor: int, tries: int) -> Mapping[str, Any]:
    for _ in range(tries):
        with suppress(ValueError, TypeError):
            return dict(json.loads(os.pread(descriptor, LONGEST, 0)))
        time.sleep(0.01)
    return {}


def _may_be_alive(holder: Mapping[str, Any]) -> bool:
    if not holder or holder.get("host") != platform.node():
        return bool(holder)
    process = holder.get("process")
    return os.name != "posix" or (isinstance(process, int) and _is_alive(process))


def _is_alive(process: int) -> bool:
    """Whether a process of this number runs on this machine; on POSIX alone, elsewhere the signal would end it."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _refusal(folder: Path, holder: Mapping[str, Any]) -> str:
    if not holder:
        return f"Another process is writing to '{folder}'. Wait until it ends, or choose another folder."
    return (
        f"Process {holder.get('process')} on host '{holder.get('host')}' has been writing to '{folder}' since "
        f"{holder.get('since')}. Wait until it ends, or choose another folder."
    )


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
