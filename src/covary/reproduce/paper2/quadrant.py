"""Do layers learn to be convolutional where the task allows it, and not where it does not?

Paper 2, Sec. 6.1, Table 1. A digit lies in one of four quadrants. To name the digit, its place must be ignored; to name
digit and quadrant, it must not, and a strictly invariant network can only guess the quadrant.
"""

from dataclasses import asdict, replace
from pathlib import Path

from ..._types import Progress
from ...config import FitConfig
from ...records import Claim, Study
from ...training import versions
from ..claims import above
from .layer_study import (
    EVIDENCE,
    METHODS,
    PAPER,
    SMOKE,
    Cell,
    Job,
    Scale,
    Version,
    accuracy,
    best_accuracy,
    configuration,
    row,
    settings,
    spent,
    train_all,
)

DIGIT, BOTH = "digit", "digit and quadrant"
TASKS = {DIGIT: "digit", BOTH: "quadrant"}
NETWORKS = {"FC": "fc", "CONV": "conv", "F-FC+CONV": "f-fc+conv"}
LEARNED = "F-FC+CONV"
QUARTER = (0.2, 0.3)  # the share of its digit accuracy that counts as about a quarter
CLOSE = 0.02
MOST_MINUTES = 40

SCALES = {
    "smoke": Scale(1, 400, 8, SMOKE),  # all forty classes must occur
    "cpu": Scale(4, 4000, 32, FitConfig.preset("layers"), processes=2),
    "paper": Scale(10, None, 32, PAPER.replace(epochs=1000)),
}
# At the common width, 20.6 M weights, FC alone would take longer than the whole study may.
NARROWER = {"cpu": {"FC": 2}}


def quadrant(scale: str, seed: int, data_dir: Path | None, progress: Progress, folder: Path | None = None) -> Study:
    """Test accuracy of FC, CONV and F-FC+CONV, by MAP and by the evidence, on a task with a symmetry and one without.

    Arguments:
        scale: "smoke", "cpu" or "paper".
        seed: The seed of data, initial weights and training.
        data_dir: Where MNIST is looked for first.
        progress: Told what is being done and the share of the whole that is done.
        folder: Where finished cells are kept; None to keep none.
    """
    chosen, data = SCALES[scale], "mnist-mini" if scale == "smoke" else "mnist"
    narrower = NARROWER.get(scale, {})
    scales = {network: replace(chosen, alpha=narrower.get(network, chosen.alpha)) for network in NETWORKS}
    jobs = [
        Job(name, network, method, settings(variant, Version(data, task=task), scales[network], seed, data_dir))
        for name, task in TASKS.items()
        for network, variant in NETWORKS.items()
        for method in METHODS
    ]
    cells = train_all(jobs, folder, progress, chosen.processes)
    seconds = spent(cells, chosen)
    return Study(
        name="quadrant",
        scale=scale,
        title="A task with a symmetry and one without: strict, free and learned layers",
        config=configuration(chosen, seed) | {"data": data, "narrower": narrower},
        versions=versions(),
        rows=[row(cell) for cell in cells],
        series={"cells": [asdict(cell) for cell in cells]},
        claims=[*_claims(cells), *([_speed(seconds)] if scale == "cpu" else [])],
        seconds=seconds,
    )


def _claims(cells: list[Cell]) -> list[Claim]:
    learned = {task: accuracy(cells, task, LEARNED, EVIDENCE) for task in TASKS}
    return [
        *(_quarter(cells, method) for method in METHODS),
        above(f"{BOTH}: learned beats FC", learned[BOTH], best_accuracy(cells, BOTH, "FC")),
        above(f"{DIGIT}: learned within 2 points of CONV", learned[DIGIT], best_accuracy(cells, DIGIT, "CONV") - CLOSE),
    ]


def _quarter(cells: list[Cell], method: str) -> Claim:
    alone, both = (accuracy(cells, task, "CONV", method) for task in (DIGIT, BOTH))
    low, high = (share * alone for share in QUARTER)
    sentence = f"{BOTH}: CONV fails, with about a quarter of its digit accuracy ({method})"
    bar = f"{100 * alone / 4:.1f} %, from {100 * low:.1f} to {100 * high:.1f}"
    return Claim(sentence, bar, f"{100 * both:.2f} %", low <= both <= high)


def _speed(seconds: float) -> Claim:
    bar, found = f"≤ {MOST_MINUTES} minutes", f"{seconds / 60:.0f} minutes"
    return Claim("all networks on both tasks", bar, found, seconds <= 60 * MOST_MINUTES)
