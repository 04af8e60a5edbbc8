"""The cells of a study of many networks: several at a time, and kept so that a killed study goes on where it was."""

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heapreplace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch

from .._files import write_text
from .._types import Progress
from ..errors import DataError, StructureError
from ..records import from_plain

Record = TypeVar("Record")
Work = Mapping[str, Callable[[], Record]]  # name -> what makes the record
Told = Callable[[str, int], None]  # (name, how many of the work are done) -> nothing
STUDY = "study.json"  # what a complete study is written to, beside the folder of its cells


@dataclass(frozen=True)
class Piece(Generic[Record]):
    """A cell that is wanted.

    Arguments:
        name: What tells it from the others of its study.
        settings: What it is made with; a kept one that was made with others is refused.
        kind: The frozen dataclass of its record.
        make: What makes it; with several processes it must be known by name to each of them.
    """

    name: str
    settings: Mapping[str, Any]
    kind: type[Record]
    make: Callable[[], Record]


def made(
    pieces: Sequence[Piece[Record]], folder: Path | None, progress: Progress, processes: int = 1
) -> dict[str, Record]:
    """The records of all cells by name, in their order; each is kept when it is complete.

    What an earlier session finished is read, all of it before any other is made: a cell of other settings, or a broken
    one, is told at once and not after hours.

    Arguments:
        pieces: The cells, in the order in which they are begun.
        folder: Where finished ones are kept, one file each; None to keep none.
        progress: Told what is begun, or with several processes what was done last, and the share of all that is done.
        processes: How many are at work at a time, with one thread each: networks this small gain little from a second.
    """
    before = {} if folder is None else _finished(pieces, folder)
    work = {piece.name: partial(_make, piece, folder) for piece in pieces if piece.name not in before}

    def tell(name: str, number: int) -> None:
        progress(name, (len(before) + number) / len(pieces))

    found = before | (_one_by_one(work, tell) if processes == 1 else _at_a_time(work, tell, processes))
    return {piece.name: found[piece.name] for piece in pieces}


def _one_by_one(work: Work[Record], tell: Told) -> dict[str, Record]:
    found = {}
    for number, (name, make) in enumerate(work.items()):
        tell(name, number)
        found[name] = make()
    return found


def _at_a_time(work: Work[Record], tell: Told, processes: int) -> dict[str, Record]:
    # spawned: a forked child would share the parent's threads, which do not survive the fork
    with ProcessPoolExecutor(processes, get_context("spawn"), _alone) as pool:
        waiting = {pool.submit(make): name for name, make in work.items()}
        try:
            for number, done in enumerate(as_completed(waiting), start=1):
                done.result()
                tell(waiting[done], number)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has begun ends by itself, the rest never begins
            raise
        return {name: done.result() for done, name in waiting.items()}


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


def _make(piece: Piece[Record], folder: Path | None) -> Record:
    """The record of a cell, written when it is complete."""
    settings = _plain(piece.settings)  # before the work: settings that cannot be written would lose it
    record = piece.make()
    if folder is not None:
        content = {"settings": settings, "record": asdict(cast(Any, record))}
        write_text(_path(folder, piece.name), json.dumps(content, allow_nan=False) + "\n")
    return record


def _finished(pieces: Sequence[Piece[Record]], folder: Path) -> dict[str, Record]:
    """The records of the cells that are kept, by name."""
    return {piece.name: _read(path, piece) for piece in pieces if (path := _path(folder, piece.name)).exists()}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they are when read: tuples are lists."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    return plain


def _path(folder: Path, name: str) -> Path:
    return folder / f"{re.sub(r'[^a-z0-9+]+', '-', name.lower())}.json"


def _read(path: Path, piece: Piece[Record]) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        written, plain = dict(content["settings"]), content["record"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is no finished cell of a study ({error}). Remove it to make the cell anew.") from error
    settings = _plain(piece.settings)
    for name in settings.keys() | written.keys():
        if name != "data_dir" and written.get(name) != settings.get(name):
            raise StructureError(
                f"{path} was made with {name} = {written.get(name)!r:.60}; {settings.get(name)!r:.60} came. Resume "
                "with the same settings, or name another folder."
            )
    record: Record = from_plain(plain, piece.kind, str(path))
    return record
