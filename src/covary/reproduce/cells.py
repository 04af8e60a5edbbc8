"""The cells of a study of many networks: computed in parallel, and kept so that a killed study can be resumed."""

import json
import os
import re
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

from .._files import remove_folder, remove_rest, write_text
from .._lock import remove_leftovers
from .._types import Progress
from ..errors import DataError, StructureError
from ..experiments.begun import plain
from ..records import from_plain
from ..records.checksums import read_sealed, sealed
from ..records.words import flat_settings

Record = TypeVar("Record")
Work = Mapping[str, Callable[[], Record]]  # name -> function that computes the record
Report = Callable[[str, int], None]  # called with the name and the number of cells that are done
STUDY = "study.json"  # the file of a complete study, beside the folder of its cells


@dataclass(frozen=True)
class CellSpec(Generic[Record]):
    """One cell of a study."""

    name: str  # its name, unique in the study
    settings: Mapping[str, Any]  # its settings; a kept cell with other settings is refused
    kind: type[Record]  # the frozen dataclass of its record
    # the function that computes the record; with several processes it must be importable by name
    make: Callable[[], Record]


def compute_cells(
    specs: Sequence[CellSpec[Record]], folder: Path | None, progress: Progress, processes: int = 1
) -> dict[str, Record]:
    """The records of all cells by name, in their order; each is written to the folder when it is complete.

    Cells that an earlier session finished are read before any other is computed, so that a broken one or one with
    other settings raises its error at once.

    Arguments:
        folder: The folder of finished cells, one file each; None to keep none.
        progress: Called with the cell that starts, or with several processes the last one that is done, and the
            fraction of cells that are done.
        processes: The number of processes, with one thread each: small networks gain little from a second thread.
    """
    before = {} if folder is None else _finished(specs, folder)
    work = {spec.name: partial(_make, spec, folder) for spec in specs if spec.name not in before}

    def report(name: str, number: int) -> None:
        progress(name, (len(before) + number) / len(specs))

    found = before | (_one_by_one(work, report) if processes == 1 else _in_parallel(work, report, processes))
    return {spec.name: found[spec.name] for spec in specs}


def _one_by_one(work: Work[Record], report: Report) -> dict[str, Record]:
    found = {}
    for number, (name, make) in enumerate(work.items()):
        report(name, number)
        found[name] = make()
    return found


def _in_parallel(work: Work[Record], report: Report, processes: int) -> dict[str, Record]:
    # spawned: a forked child would share the parent's threads, which do not survive the fork
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_worker) as pool:
        waiting = {pool.submit(make): name for name, make in work.items()}
        try:
            for number, done in enumerate(as_completed(waiting), start=1):
                done.result()
                report(waiting[done], number)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # running cells end by themselves, the others never start
            raise
        return {name: done.result() for done, name in waiting.items()}


def wall_time(seconds: Iterable[float], processes: int) -> float:
    """The seconds from the first start to the last end of cells that free processes start in their order."""
    ends = [0.0] * processes
    for spent in seconds:
        heapreplace(ends, ends[0] + spent)  # the least of a heap is its first
    return max(ends)


def _start_worker() -> None:
    """Use one thread, silence the progress bars of several fits, and end when the study is killed."""
    torch.set_num_threads(1)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
    threading.Thread(target=_end_with_study, daemon=True).start()


def _end_with_study() -> None:
    """End this process when the study's process is gone; it would otherwise train beside a resumed study."""
    study = parent_process()
    assert study is not None, "a worker has a study"
    wait([study.sentinel])
    os._exit(1)


def require_fresh(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `StructureError` if a study would be lost, or there is none to resume; remove cells that are replaced."""
    if resume and overwrite:
        raise StructureError("--resume continues a study and --overwrite replaces it. Pass one of them.")
    remove_leftovers(folder)
    remove_rest(folder)
    if overwrite:
        remove_folder(folder)
        return
    complete = (folder.parent / STUDY).exists()
    if not resume and (folder.exists() or complete):
        state = "a complete" if complete else "an unfinished"
        advice = f"Pass --resume to {'extend' if complete else 'continue'} it, " if folder.exists() else "Pass "
        raise StructureError(
            f"{folder.parent} has {state} study. {advice}--overwrite to replace it, or name another folder."
        )
    if resume and not folder.exists() and complete:
        raise StructureError(
            f"Expected a study to resume, got a complete one without cells in {folder.parent}. Pass --overwrite to "
            "run it again, or name another folder."
        )


def _make(spec: CellSpec[Record], folder: Path | None) -> Record:
    """Return the record of a cell and write it when it is complete."""
    settings = plain(spec.settings)  # before the work: settings that cannot be written would lose it
    record = spec.make()
    if folder is not None:
        content = {"settings": settings, "record": plain(asdict(cast(Any, record)))}
        write_text(_path(folder, spec.name), json.dumps(sealed(content), allow_nan=False) + "\n")
    return record


def _finished(specs: Sequence[CellSpec[Record]], folder: Path) -> dict[str, Record]:
    """The records of the cells in the folder, by name."""
    return {spec.name: _read(path, spec) for spec in specs if (path := _path(folder, spec.name)).exists()}


def _path(folder: Path, name: str) -> Path:
    return folder / f"{re.sub(r'[^a-z0-9+]+', '-', name.lower())}.json"


def _read(path: Path, spec: CellSpec[Record]) -> Record:
    try:
        content = read_sealed(path)
        written, fields = dict(content["settings"]), content["record"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"Expected a finished cell of a study in {path} ({error}). Remove it to compute it again."
        ) from error
    settings, written = flat_settings(plain(spec.settings)), flat_settings(written)
    for name in sorted(settings.keys() | written.keys()):
        if name != "data_dir" and written.get(name) != settings.get(name):
            raise StructureError(
                f"Expected {name} = {written.get(name)!r:.60} as in {path}, got {settings.get(name)!r:.60}. Resume "
                "with the same settings, or name another folder."
            )
    return from_plain(fields, spec.kind, str(path))
