"""Seconds and megabytes of passes: medians of alternating repeats, peak memory in a process per pass."""

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .._types import Probes, Progress

Pass = Callable[[], object]


class Memory(NamedTuple):
    """The peak memory of a process, and by how much a pass raised it."""

    peak_mb: float
    pass_mb: float


def portion(progress: Progress, number: int, total: int) -> Progress:
    """The progress of one of several stages that take about as long."""
    return lambda message, done: progress(message, (number + done) / total)


def alternate(passes: Mapping[str, Pass], repeats: int, progress: Progress) -> dict[str, float]:
    """The median seconds of each pass; one unmeasured round first, then the passes alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for repeat in range(repeats + 1):
        for number, (name, run) in enumerate(passes.items()):
            stage = f"repeat {repeat} of {repeats}" if repeat else "warming up"
            progress(f"{name}: {stage}", (repeat + number / len(passes)) / (repeats + 1))
            start = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory(build: Callable[[], Mapping[str, Pass]], name: str) -> Memory:
    """The memory of one pass, run once in a new process after its data and network were built there."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        peak, before = pool.apply(_run_alone, (build, name))
    return Memory(peak, peak - before)


def bench_row(
    workload: str, name: str, probes: Probes | None, seconds: Mapping[str, float], memory: Memory | None = None
) -> dict[str, Any]:
    """One row: seconds of a pass, their ratio to the first pass, and its peak memory.

    Arguments:
        probes: The probes of its curvature; None for a pass without curvature.
        seconds: The seconds of all passes, the one that the others are compared with first.
    """
    return {
        "workload": workload,
        "pass": name,
        "probes": probes,
        "seconds": seconds[name],
        "ratio": seconds[name] / next(iter(seconds.values())),
        "peak_mb": None if memory is None else memory.peak_mb,
    }


def _run_alone(build: Callable[[], Mapping[str, Pass]], name: str) -> tuple[float, float]:
    run = build()[name]
    before = _peak()
    run()
    return _peak(), before


def _peak() -> float:
    """The largest resident size of this process so far, in MB."""
    # getrusage would include the parent's peak; the kernel's own mark starts at 0 in each program
    status = Path("/proc/self/status")
    if status.exists():
        mark = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(mark.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
