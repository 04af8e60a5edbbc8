"""How time and memory grow: with the data N, the samples S, the outputs C and the weights P.

One axis at a time around an MLP with N = 500, S = 8, C = 10 and 300 hidden units, a hyper step with one sketch each;
for C also exact columns. The stochastic bound's step stands beside, on 100 data.
"""

from functools import partial
from typing import Any

from .._types import Probes, Progress
from ..hypergrad import stochastic
from .evidence import hyper_step, sketch_bias
from .measure import Pass, alternate, peak_memory, portion
from .workloads import Workload, mlp_workload, training_pass

CENTER = {"N": 500, "S": 8, "C": 10, "hidden": 300}
AXES = {
    "N": (250, 500, 1000, 2000, 4000),
    "S": (4, 8, 16, 32),
    "C": (2, 10, 100, 1000),
    "hidden": (150, 300, 600, 1200),
}
MEMORY_AXES = ("N", "S")
MOST_EXACT = 100  # outputs up to which exact columns are measured too
BOUND_DATA = 100


def measure_scaling(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """One row per axis, size and pass."""
    points = [(axis, size) for axis, sizes in AXES.items() for size in sizes]
    rows = []
    for number, (axis, size) in enumerate(points):
        rows += _rows(axis, size, repeats, portion(progress, number, len(points)))
    return rows


def _rows(axis: str, size: int, repeats: int, progress: Progress) -> list[dict[str, Any]]:
    build = partial(build_passes, axis, size)
    passes = build()
    seconds = alternate(passes, repeats, progress)
    rows = []
    for name in passes:
        memory = peak_memory(build, name) if axis in MEMORY_AXES and name != "stochastic bound" else None
        bias = sketch_bias(_workload(axis, size)) if name == "one sketch" and not _too_many(axis, size) else {}
        rows.append(
            bias
            | {
                "workload": f"mlp, {axis}={size}",
                "axis": axis,
                "size": size,
                "pass": name,
                "columns": {"one sketch": 1, "exact": "exact"}.get(name),
                "seconds": seconds[name],
                "ratio": seconds[name] / seconds["training"],
                "peak_mb": None if memory is None else memory.peak_mb,
            }
        )
    return rows


def _too_many(axis: str, size: int) -> bool:
    """Whether exact columns would take longer than they are worth."""
    return axis == "C" and size > MOST_EXACT


def _workload(axis: str, size: int) -> Workload:
    sizes = CENTER | {axis: size}
    workload = mlp_workload(sizes["N"], sizes["S"], sizes["C"], sizes["hidden"])
    # S × batch is the same everywhere, so that memory shows what grows by itself
    return workload._replace(batch_size=max(1, CENTER["N"] * CENTER["S"] // sizes["S"]))


def build_passes(axis: str, size: int) -> dict[str, Pass]:
    """The passes at one size of one axis."""
    workload = _workload(axis, size)
    passes: dict[str, Pass] = {"training": partial(training_pass, workload)}
    columns: list[Probes] = [1, "exact"] if axis == "C" and not _too_many(axis, size) else [1]
    for column in columns:
        passes["exact" if column == "exact" else "one sketch"] = partial(hyper_step, workload, column)
    passes["stochastic bound"] = partial(_bound_step, workload)
    return passes


def _bound_step(workload: Workload) -> None:
    data = (workload.x, workload.y)
    num_data = min(BOUND_DATA, len(workload.x))
    stochastic(workload.model, data, outputs="one", num_data=num_data)
