"""Processes that are killed at any moment, and disks that are full: does the run end as it would have?"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from torture.cases import OUT, Case, difference
from torture.processes import Outcome, full_from, kill_at, one_line, run


def resumed(case: Case, folder: Path) -> str:
    """Resume a disturbed command and compare its result; empty if it is the undisturbed one."""
    done = run([*case.command, "--resume"], folder)
    if done.code != 0:
        return f"--resume ended with {done.code}: {done.err[-300:]}"
    return difference(folder / OUT, case.reference)


def killed_at(case: Case, folder: Path, operation: int) -> str:
    """Kill the command before a file operation, and resume it."""
    done = run(case.command, folder, kill_at(operation))
    if done.code not in (-9, 0):
        return f"ended with {done.code} before it was killed: {done.err[-300:]}"
    return resumed(case, folder)


def killed_after(case: Case, folder: Path, seconds: Iterable[float]) -> str:
    """Kill the command after some seconds, resume it, kill that too, and so on; then resume it to the end."""
    command = list(case.command)
    for number in seconds:
        done = run(command, folder, kill_after=number)
        if done.code == 0:
            return difference(folder / OUT, case.reference)
        if done.code != -9:
            return f"ended with {done.code} before it was killed: {done.err[-300:]}"
        command = [*case.command, "--resume"]
    return resumed(case, folder)


def disk_full_from(case: Case, folder: Path, operation: int) -> str:
    """Let every write fail from a file operation on: one line and code 2; then resume with space."""
    return _refused_or_complete(case, run(case.command, folder, full_from(operation)), folder)


def small_disk(case: Case, folder: Path, kilobytes: int) -> str:
    """Run on a disk of this size: one line and code 2, or success; then enlarge the disk and resume."""
    place = folder / OUT
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], check=True)
    try:
        done = run(case.command, folder)
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        return _refused_or_complete(case, done, folder)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def may_mount(folder: Path) -> bool:
    """Whether this user may mount a tmpfs."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    folder.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return done.returncode == 0


def _refused_or_complete(case: Case, done: Outcome, folder: Path) -> str:
    """A command that found no space: complete, or refused in one line and resumed with space to the same end."""
    if done.code == 0:
        return difference(folder / OUT, case.reference)
    problem = one_line(done, "No space left on device")
    return problem or resumed(case, folder)
