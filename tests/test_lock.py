"""A folder has one writer: another process is refused with a line that names it, and a dead one is in nobody's way."""

import errno
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from covary import _lock
from covary._lock import LOCK, locked, writer_of
from covary.errors import StructureError

HOLDER = """
import sys
from pathlib import Path
from covary._lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout.readline() == "locked\n"
        yield other
        other.kill()


def test_a_second_process_is_told_the_first_and_a_killed_one_is_replaced(tmp_path, holder):
    with pytest.raises(StructureError) as caught, locked(tmp_path):
        pass
    expected = f"Process {holder.pid} on host '{platform.node()}' has been writing to '{tmp_path}' since 20"
    assert str(caught.value).startswith(expected)
    assert writer_of(tmp_path)["process"] == holder.pid
    assert (tmp_path / LOCK).exists(), "a refused process leaves the lock of the other"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists(), "the control: a killed process leaves its file"
    assert writer_of(tmp_path) is None
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_got_the_number_of_a_dead_one_is_no_writer(tmp_path, monkeypatch):
    """After a restart of the machine the file of a killed process may name any other."""
    named = {"host": platform.node(), "process": os.getppid(), "since": "2026-01-01 00:00:00 UTC"}
    (tmp_path / LOCK).write_text(json.dumps(named))
    assert writer_of(tmp_path) is None
    monkeypatch.setattr(_lock, "flock", None)
    assert writer_of(tmp_path) == named, "the control: without locks the name decides"


def test_a_look_at_the_writer_refuses_none(tmp_path):
    with (tmp_path / LOCK).open("w+b") as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        timer = threading.Timer(0.015, looked_at.close)
        timer.start()
        with locked(tmp_path):
            pass
        timer.join()


def test_two_writers_in_one_process_are_two(tmp_path):
    with locked(tmp_path), pytest.raises(StructureError, match=f"Process {os.getpid()} on host"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_folders_that_stay_empty_are_removed_and_others_are_not(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / LOCK).exists()
    assert not (tmp_path / "a").exists()
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "kept").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


def test_a_lock_whose_file_was_replaced_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    """Its holder removes the file when it ends: a process that had opened it would hold a lock on nothing."""
    taken = []

    def slow(descriptor: int, operation: int) -> None:
        taken.append(descriptor)
        if len(taken) == 1:
            (tmp_path / LOCK).unlink()

    monkeypatch.setattr(_lock, "flock", slow)
    with locked(tmp_path):
        assert len(taken) == 2
        assert (tmp_path / LOCK).exists()


@pytest.fixture
def without_locks(monkeypatch):
    """A file system that has no locks."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_lock, "flock", refuse)


@pytest.mark.parametrize(
    ("host", "process", "refused"),
    [
        (platform.node(), os.getppid(), True),
        (platform.node(), 2**22 + 1, False),  # above the largest number that Linux gives
        ("elsewhere", 2**22 + 1, True),
    ],
)
def test_without_locks_the_named_process_decides(tmp_path, without_locks, host, process, refused):
    (tmp_path / LOCK).write_text(json.dumps({"host": host, "process": process, "since": "2026-01-01 00:00:00 UTC"}))
    if refused:
        with pytest.raises(StructureError, match=f"If it is dead, remove '{tmp_path / LOCK}'"), locked(tmp_path):
            pass
        return
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()


HERE = platform.node()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "3",
        *(json.dumps({"host": HERE, "process": process}) for process in ("x", None, [], 2.5)),
        f'{{"host": "{HERE}"}}',
    ],
)
def test_a_lock_file_without_a_name_is_no_lock(tmp_path, without_locks, text):
    (tmp_path / LOCK).write_text(text)
    with locked(tmp_path):
        pass


def test_a_full_disk_leaves_no_lock_and_no_folder(tmp_path, monkeypatch):
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as caught, locked(tmp_path / "a"):
        pass
    assert caught.value.filename == str(tmp_path / "a" / LOCK)
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_dead_processes_are_removed(tmp_path):
    dead, living = 2**22 + 1, os.getppid()
    kept = [f".run.json.{living}", ".notes.2024", "run.json.1", ".hidden", "model.safetensors"]
    left = [f".run.json.{dead}", f".checkpoint-000001-000000.safetensors.{dead}", f".report.html.{os.getpid()}"]
    left += [f".{name}.{dead}" for name in ("progress.jsonl", "model.onnx", "model.pt2", "README.md")]
    for name in kept + left:
        (tmp_path / name).touch()
    with locked(tmp_path):
        assert sorted(path.name for path in Path(tmp_path).iterdir()) == sorted([*kept, LOCK])
