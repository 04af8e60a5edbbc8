"""Commands in processes of their own, forked from one that has imported everything, and what is done to them.

A file operation is an event of Python's audit: a file opened for writing, a folder made, a file or folder moved or
removed. `act` is called before each of them, in the process itself. A folder that is there already and a file that is
not there to be removed are no operations: a kill before and after them leaves the same files.
"""

import errno
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from covary import cli

Act = Callable[[int, str, str], None]  # of the number of the operation, its event, and the path
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LONGEST = 120  # seconds, for any command of this suite


class Outcome(NamedTuple):
    """How a process ended: its exit code (negative for a signal), what it printed, and its file operations."""

    code: int
    out: str
    err: str
    operations: int
    seconds: float


def run(arguments: Sequence[str], folder: Path, act: Act | None = None, kill_after: float | None = None) -> Outcome:
    """Run the command in a folder to its end, or kill it after some seconds."""
    return Process(arguments, folder, act).wait(kill_after)


class Process:
    """A command that has been started."""

    def __init__(self, arguments: Sequence[str], folder: Path, act: Act | None = None, name: str = "printed") -> None:
        self.counter, self.started = mmap.mmap(-1, 8), time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.printed = folder / f"{name}.out", folder / f"{name}.err"
        self.pid = os.fork()
        if self.pid == 0:
            self._become(list(arguments), folder, act)

    def wait(self, kill_after: float | None = None) -> Outcome:
        """Wait for its end; one that takes too long is killed, and its code is -100."""
        limit, killed = LONGEST if kill_after is None else kill_after, False
        while not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            if time.monotonic() - self.started > limit and not killed:
                os.kill(self.pid, signal.SIGKILL)
                killed = True
            time.sleep(0.002)
        code = -100 if killed and kill_after is None else os.waitstatus_to_exitcode(found[1])
        out, err = (_text(path) for path in self.printed)
        return Outcome(code, out, err, int.from_bytes(self.counter[:8], "little"), time.monotonic() - self.started)

    def _become(self, arguments: list[str], folder: Path, act: Act | None) -> None:
        """Be the command, in the child, and never return."""
        code = 1
        try:
            os.chdir(folder)
            for number, path in enumerate(self.printed, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.addaudithook(self._hook(act))
            cli.main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

    def _hook(self, act: Act | None) -> Callable[[str, tuple[object, ...]], None]:
        here = os.getcwd()

        def hook(event: str, values: tuple[object, ...]) -> None:
            if event == "open":
                writes = isinstance(values[2], int) and values[2] & WRITING
            else:
                writes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
            if not writes or not isinstance(values[0], str | os.PathLike):
                return
            path = str(os.fspath(values[0]))
            if os.path.isabs(path) and not path.startswith(here):
                return
            if values[-1] == -1 and _changes_nothing(event, path):  # else the path is relative to an open folder
                return
            number = int.from_bytes(self.counter[:8], "little") + 1
            self.counter[:8] = number.to_bytes(8, "little")
            if act is not None:
                act(number, event, path)

        return hook


def _changes_nothing(event: str, path: str) -> bool:
    """Whether a folder that exists is made, or a file that does not exist removed."""
    return os.path.isdir(path) if event == "os.mkdir" else event == "os.remove" and not os.path.lexists(path)


def _text(path: Path) -> str:
    """What was printed; nothing by a process that was killed before it could open the file."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def one_line(done: Outcome, word: str) -> str:
    """How a process did not end with one line of error that contains a word, and code 2; empty if it did."""
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    if done.code == 2 and len(errors) == 1 and word in errors[0] and "Traceback" not in done.err:
        return ""
    return f"ended with {done.code}: {done.err[-300:]}"


def kill_at(operation: int) -> Act:
    """Kill the process before one of its file operations."""

    def act(number: int, event: str, path: str) -> None:
        del event, path
        if number == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def full_from(operation: int) -> Act:
    """A disk that is full from one file operation on: nothing can be opened for writing, no folder made."""

    def act(number: int, event: str, path: str) -> None:
        if number >= operation and event in ("open", "os.mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    return act
