"""`make torture`: kills, full disks, damaged files and second writers, against the promises of the documentation.

Prints a table of what was tried, what held and what fell short, and exits with 1 if anything did.
"""

import argparse
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a forked process must not wait for threads it has not
import torch
import torch._dynamo  # imported by the first optimizer: half of the time of a command

from torture import crashes, damage, writers
from torture.cases import OUT, Case, prepare
from torture.processes import Outcome, run

SEED = 0
Found = list[tuple[str, str]]  # what was tried, and how it fell short: empty if it held


class Trial(NamedTuple):
    """One trial: the row of the table that it belongs to, and the function that makes it."""

    row: str
    name: str
    function: Callable[[Path], str | Found]


def measured(case: Case) -> Outcome:
    """Run the command undisturbed with two seeds, and return the outcome of the first."""
    ends = [
        run([*case.command, "--seed", str(seed)], place.parent)
        for seed, place in enumerate((case.reference, case.other))
    ]
    for end in ends:
        if end.code != 0:
            sys.exit(f"The undisturbed command '{case.name}' failed: {end.err}")
    return ends[0]


def kills(case: Case, whole: Outcome, quick: bool) -> Iterator[Trial]:
    """Kills before file operations and at random moments."""
    step, number = (max(whole.operations // 4, 1), 2) if quick else (1, 30)
    for operation in range(1, whole.operations + 1, step):
        name = f"{case.name}, operation {operation}"
        yield Trial(
            f"{case.name}: SIGKILL before a file operation", name, partial(_call, crashes.killed_at, case, operation)
        )
    drawn = random.Random(f"{SEED} {case.name}")
    for moment in range(number):
        times = tuple(drawn.uniform(0.02, whole.seconds) for _ in range(drawn.randint(1, 3)))
        name = f"{case.name}, after {', '.join(f'{seconds:.3f}' for seconds in times)} s"
        yield Trial(f"{case.name}: SIGKILL at random moments", name, partial(_call, crashes.killed_after, case, times))
        del moment


def disks(case: Case, whole: Outcome, quick: bool, mounts: bool) -> Iterator[Trial]:
    """Disks that are full, by errors that are injected and by a small file system."""
    every = 3 if case.name == "discover" else 6
    for operation in range(1, whole.operations + 1, max(whole.operations // 2, 1) if quick else every):
        name = f"{case.name}, full from operation {operation}"
        yield Trial(f"{case.name}: disk full (injected)", name, partial(_call, crashes.disk_full_from, case, operation))
    for kilobytes in () if quick or not mounts else (4, 8, 12, 16, 24, 32, 48, 64):
        name = f"{case.name}, disk of {kilobytes} KiB"
        yield Trial(f"{case.name}: disk full (tmpfs)", name, partial(_call, crashes.small_disk, case, kilobytes))


def corruptions(case: Case, whole: Outcome, quick: bool) -> Iterator[Trial]:
    """Every file of a finished and of an interrupted run, damaged in every way."""
    files = sorted(str(path.relative_to(case.reference)) for path in case.reference.rglob("*") if path.is_file())
    for name in files[:1] if quick else files:
        function = partial(_call, damage.finished, case, name, case.other)
        yield Trial(f"{case.name}: damaged file of a finished run", f"{case.name}, {name}", function)
    if not quick:
        function = partial(_call, damage.unfinished, case, whole.operations // 2)
        yield Trial(f"{case.name}: damaged file of an interrupted run", case.name, function)


def races(cases: dict[str, Case], outcomes: dict[str, Outcome], longer: Path, quick: bool) -> Iterator[Trial]:
    """Two writers, and killed workers of a job."""
    drawn = random.Random(SEED)
    for case in cases.values():
        for number in range(1 if quick else 10):
            delay = drawn.uniform(0, 1.2 * outcomes[case.name].seconds)
            name = f"{case.name}, second after {delay:.3f} s"
            yield Trial("two processes, one folder", name, partial(_call, writers.two_at_once, case, delay))
            del number
    for rank, processes in () if quick else ((0, 1), (1, 3), (1, 1), (0, 3)):
        name = f"rank {rank} of 2 killed, resumed with {processes}"
        function = partial(_call, writers.killed_worker, cases["discover"], rank, processes, longer)
        yield Trial("torchrun: a killed worker, another number of processes", name, function)


def _call(function: Callable[..., str | Found], case: Case, *arguments: object, folder: Path) -> str | Found:
    return function(case, folder, *arguments)


def attempt(trial: Trial, work: Path, deadline: float) -> tuple[str, Found]:
    """Make one trial in a folder of its own, which is removed; none after the deadline."""
    if time.monotonic() > deadline:
        return trial.row, []
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        found = trial.function(folder=folder / "trial")
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return trial.row, found if isinstance(found, list) else [(trial.name, found)]


def print_table(rows: dict[str, Found], seconds: float) -> None:
    """Print what was tried, what held and what fell short."""
    width = max(map(len, rows))
    print(f"{'':{width}}  tried   held  fell short")
    for row, found in rows.items():
        short = [(name, problem) for name, problem in found if problem]
        print(f"{row:{width}}  {len(found):5}  {len(found) - len(short):5}  {len(short):10}")
    for name, problem in [(name, problem) for found in rows.values() for name, problem in found if problem]:
        print(f"- {name}: {' '.join(problem.split())}")
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"{sum(map(len, rows.values())):,} trials in {seconds:.0f} s, {used:.0f} s of them on a processor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; 1 if anything fell short."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few trials of each kind, in a minute")
    parser.add_argument("--processes", type=int, default=2, help="trials at a time")
    parser.add_argument("--minutes", type=float, default=15, help="what is not begun by then is not tried")
    parser.add_argument("--only", default="", help="only rows in which this regular expression is found")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        work = Path(name).resolve()
        cases = prepare(work)
        outcomes = {name: measured(case) for name, case in cases.items()}
        longer = work / "longer" / OUT
        if not options.quick:  # nothing else is compared with it
            run([*cases["discover"].command, *writers.LONGER], longer.parent)
        mounts = crashes.may_mount(work / "mounted")
        trials = [trial for case in cases.values() for trial in kills(case, outcomes[case.name], options.quick)]
        trials += [t for case in cases.values() for t in disks(case, outcomes[case.name], options.quick, mounts)]
        trials += [t for case in cases.values() for t in corruptions(case, outcomes[case.name], options.quick)]
        trials += races(cases, outcomes, longer, options.quick)
        trials = [trial for trial in trials if re.search(options.only, trial.row)]
        rows: dict[str, Found] = {trial.row: [] for trial in trials}
        random.Random(SEED).shuffle(trials)  # the first ones are of every kind, should the time not suffice
        deadline = started + 60 * options.minutes
        with get_context("fork").Pool(options.processes) as pool:
            for row, found in pool.imap_unordered(partial(attempt, work=work, deadline=deadline), trials):
                rows[row] += found
    print_table(rows, time.monotonic() - started)
    return int(any(problem for found in rows.values() for _, problem in found))


if __name__ == "__main__":
    sys.exit(main())
