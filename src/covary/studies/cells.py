"""The cells of a study of many networks: several at a time, and kept so that a killed study goes on where it was."""

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from heapq import heapreplace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import torch

from .._errors import DataError, StructureError
from .._files import write_text
from .._types import Progress
from ..records import from_plain

__all__ = ["STUDY", "discard", "kept", "made", "require_fresh", "wall_time"]

Record = TypeVar("Record")
STUDY = "study.json"  # what a complete study is written to, beside the folder of its cells


def made(work: Mapping[str, Callable[[], Record]], progress: Progress, processes: int = 1) -> list[Record]:
    """What each piece of work came to, in its order.

    Arguments:
        work: Name -> what makes the record; with several processes it must be known by name to each of them.
        progress: Told what is begun, or with several processes what was done last, and the share of all that is done.
        processes: How many are at work at a time, with one thread each: networks this small gain little from a second.
    """
    if processes == 1:
        records = []
        for number, (name, make) in enumerate(work.items()):
            progress(name, number / len(work))
            records.append(make())
        return records
    # spawned: a forked child would share the parent's threads, which do not survive the fork
    with ProcessPoolExecutor(processes, get_context("spawn"), _alone) as pool:
        waiting = {pool.submit(make): name for name, make in work.items()}
        try:
            for number, done in enumerate(as_completed(waiting), start=1):
                done.result()
                progress(waiting[done], number / len(work))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has begun ends by itself, the rest never begins
            raise
        return [done.result() for done in waiting]


def wall_time(seconds: Iterable[float], processes: int) -> float:
    """The seconds from the first start to the last end of work that is begun in its order, by whoever is free.

    Arguments:
        seconds: What each piece took, over all sessions of a study.
        processes: How many are at work at a time.
    """
    ends = [0.0] * processes
    for spent in seconds:
        heapreplace(ends, ends[0] + spent)  # the least of a heap is its first
    return max(ends)


def _alone() -> None:
    """One thread, no progress bars of several fits on one terminal, and an end when the study is killed."""
    torch.set_num_threads(1)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
    threading.Thread(target=_end_with_the_study, daemon=True).start()


def _end_with_the_study() -> None:
    """Nothing before the study's process is gone; then this one ends too, or it would train beside a resumed study."""
    study = parent_process()
    assert study is not None, "a worker has a study"
    wait([study.sentinel])
    os._exit(1)


def kept(
    folder: Path | None, name: str, settings: Mapping[str, Any], kind: type[Record], make: Callable[[], Record]
) -> Record:
    """The record of one cell: read where an earlier session finished it, else made, and written when it is complete.

    Arguments:
        folder: Where finished cells lie, one file each; None to keep none.
        name: What tells the cell from the others of its study.
        settings: What it is made with; one that was made with other settings is refused.
        kind: The frozen dataclass of the record.
        make: What makes it.
    """
    if folder is None:
        return make()
    path = folder / f"{re.sub(r'[^a-z0-9+]+', '-', name.lower())}.json"
    plain = json.loads(json.dumps(dict(settings)))
    if path.exists():
        return _read(path, plain, kind)
    record: Any = make()
    write_text(path, json.dumps({"settings": plain, "record": asdict(record)}, allow_nan=False) + "\n")
    finished: Record = record
    return finished


def require_fresh(folder: Path, resume: bool) -> None:
    """Nothing, or an error where cells of an unfinished study would be mistaken, or nothing is left to resume."""
    if not resume and folder.exists():
        raise StructureError(
            f"{folder.parent} holds an unfinished study. Pass --resume to go on with it, or name another folder."
        )
    if resume and not folder.exists() and (folder.parent / STUDY).exists():
        raise StructureError(
            f"{folder.parent} holds a complete study: there is nothing to resume. Leave --resume out to make it anew, "
            "or name another folder."
        )


def discard(folder: Path) -> None:
    """Nothing of the cells: the study they belong to is complete."""
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path, settings: Mapping[str, Any], kind: type[Record]) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        written, plain = dict(content["settings"]), content["record"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is no finished cell of a study ({error}). Remove it to make the cell anew.") from error
    for name in settings.keys() | written.keys():
        if name != "data_dir" and written.get(name) != settings.get(name):
            raise StructureError(
                f"{path} was made with {name} = {written.get(name)!r:.60}; {settings.get(name)!r:.60} came. Resume "
                "with the same settings, or name another folder."
            )
    record: Record = from_plain(plain, kind, str(path))
    return record
