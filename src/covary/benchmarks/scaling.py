"""How time and memory grow: with the data N, the samples S, the outputs C and the weights P.

One axis at a time around an MLP with N = 500, S = 8, C = 10 and 300 hidden units, a hyper step with one probe each;
for C also with exact ones. The stochastic bound's step is measured on 100 data.
"""

from functools import partial
from typing import Any

from .._types import Probes, Progress
from ..hypergrad import stochastic
from .evidence import hyper_step, probe_bias
from .measure import Pass, alternate, bench_row, peak_memory, portion
from .workloads import Workload, mlp_workload, training_pass

CENTER = {"N": 500, "S": 8, "C": 10, "hidden": 300}
AXES = {
    "N": (250, 500, 1000, 2000, 4000),
    "S": (4, 8, 16, 32),
    "C": (2, 10, 100, 1000),
    "hidden": (150, 300, 600, 1200),
}
MEMORY_AXES = ("N", "S")
MAX_EXACT = 100  # outputs up to which exact probes are measured, too
BOUND_DATA = 100
ONE = "one probe"


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
        probes: Probes | None = 1 if name == ONE else "exact" if name == "exact" else None
        row = bench_row(f"mlp, {axis}={size}", name, probes, seconds, memory)
        bias = probe_bias(_workload(axis, size)) if name == ONE and not _too_many(axis, size) else {}
        rows.append(row | {"axis": axis, "size": size} | bias)
    return rows


def _too_many(axis: str, size: int) -> bool:
    """Whether exact probes would take too long."""
    return axis == "C" and size > MAX_EXACT


def _workload(axis: str, size: int) -> Workload:
    sizes = CENTER | {axis: size}
    workload = mlp_workload(sizes["N"], sizes["S"], sizes["C"], sizes["hidden"])
    # S × batch is constant, so that memory shows the growth with N and S alone
    return workload._replace(batch_size=max(1, CENTER["N"] * CENTER["S"] // sizes["S"]))


def build_passes(axis: str, size: int) -> dict[str, Pass]:
    """The passes at one size of one axis."""
    workload = _workload(axis, size)
    passes: dict[str, Pass] = {"training": partial(training_pass, workload)}
    passes[ONE] = partial(hyper_step, workload, 1)
    if axis == "C" and not _too_many(axis, size):
        passes["exact"] = partial(hyper_step, workload, "exact")
    passes["stochastic bound"] = partial(_bound_step, workload)
    return passes


def _bound_step(workload: Workload) -> None:
    data = (workload.x, workload.y)
    num_data = min(BOUND_DATA, len(workload.x))
    stochastic(workload.model, data, outputs="one", num_data=num_data)
