"""How time and memory grow: with the data N, the samples S, the outputs C and the weights P.

One axis at a time around an MLP with N = 500, S = 8, C = 10 and 300 hidden units, a hyper step with one probe each;
for C also with exact ones. The stochastic bound's step is measured on 100 data.

On the axis "epoch" a row is an epoch of a run of 30 epochs with the settings of `covary discover` for its MLP, N digits
and 8 samples: of weight steps alone, and with the hyper steps that are due in it.
"""

from functools import partial
from typing import Any

import torch

from .._types import Probes, Progress
from ..config import discover_config
from ..experiments.build import prepared, start_of
from ..hypergrad import stochastic
from ..models import Model
from ..training import fit
from ..training.hyper import data_per_step
from ..training.schedule import filled_in, hyper_steps_due
from .evidence import hyper_step, probe_bias
from .measure import Pass, Workload, alternate, bench_row, mlp_workload, peak_memory, portion, training_pass

CENTER = {"N": 500, "S": 8, "C": 10, "hidden": 300}
AXES = {
    "N": (250, 500, 1000, 2000, 4000),
    "S": (4, 8, 16, 32),
    "C": (2, 10, 100, 1000),
    "hidden": (150, 300, 600, 1200),
}
EPOCH_SIZES = (1000, 5000, 20_000, 60_000)
RUN_EPOCHS, MEASURED_EPOCHS = 30, 3  # of the run, and of the part that is measured, whose first one is the burn-in
MEMORY_AXES = ("N", "S")
MAX_EXACT = 100  # outputs up to which exact probes are measured, too
BOUND_DATA = 100
ONE = "one probe"


def measure_scaling(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """One row per axis, size and pass."""
    points = [(axis, size) for axis, sizes in AXES.items() for size in sizes]
    total = len(points) + len(EPOCH_SIZES)
    rows = []
    for number, (axis, size) in enumerate(points):
        rows += _rows(axis, size, repeats, portion(progress, number, total))
    for number, size in enumerate(EPOCH_SIZES, len(points)):
        progress(f"epochs of {size:,} data", number / total)
        rows += epoch_rows(size)
    return rows


def epoch_rows(num_data: int, network: str = "mlp") -> list[dict[str, Any]]:
    """The rows of an epoch of N data: the digits of mnist-mini, repeated where N is larger."""
    config = discover_config(network).replace(symmetrize="rotate:90", epochs=RUN_EPOCHS)
    settings = filled_in(config.fit, num_data)
    size = data_per_step(settings, num_data)
    due = [hyper_steps_due(epochs, size, num_data, settings) for epochs in (RUN_EPOCHS - 1, RUN_EPOCHS)]
    config = config.replace(
        **{
            "epochs": MEASURED_EPOCHS,
            "hyper.burn_in": 1,
            "hyper.fraction": min((due[1] - due[0]) * size / num_data, 1.0),
            "evaluation.num_evaluations": 0,
        }
    )
    task = prepared(config)
    rows = torch.arange(num_data, device="cpu") % len(task.dataset.x_train)
    built, prior, settings = start_of("learned", config, task)
    data = task.dataset.x_train[rows], task.dataset.y_train[rows]
    spent = fit(Model(built, prior=prior), data, settings).record.timings
    training = spent["weights"] / MEASURED_EPOCHS
    seconds = {"training": training, "learning": training + spent["hyper"] / (MEASURED_EPOCHS - 1)}
    return [
        bench_row(f"{network}, epoch of {num_data}", name, None, seconds) | {"axis": "epoch", "size": num_data}
        for name in seconds
    ]


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
