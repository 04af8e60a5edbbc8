"""Is the right symmetry group chosen among several?

Paper 2, Sec. 6.3, Table 3. Each layer is the sum of a free path, one that commutes with shifts, and one that commutes
with shifts and quarter turns; how far each is used is read from its relative number of effective parameters. On
data that are rotated, the last should be used more.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..._types import Progress
from ...config import FitConfig
from ...records import Claim, Study
from ...training import versions
from ..claims import above, below
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
    configuration,
    loss,
    row,
    settings,
    shares,
    spent,
    train_all,
)

NETWORK, VARIANT = "F-FC+CONV+GCONV", "f-fc+conv+gconv"
VERSIONS = {
    "MNIST": Version("mnist"),
    "translated MNIST": Version("mnist", "translate:8"),
    "rotated MNIST": Version("mnist", "rotate:180"),
    "CIFAR-10": Version("cifar-10"),
    "rotated CIFAR-10": Version("cifar-10", "rotate:180"),
}
ROTATED = ("rotated MNIST", "rotated CIFAR-10")
GROUP_PATH = "gconv"

# The paper's first rates and schedule of hyper steps (App. F.6), with a longer burn-in: layers start as their strict
# path, which must have learned something before the first hyper step. From the free end, with all paths alike, the
# dense ones learn the images by heart first, and the evidence ends far below that of the strict paths alone. KFAC
# overstates the curvature of each path by a factor of its own, and shares compare paths: partial traces far less.
LONG = FitConfig.preset("layers-equivariant").replace(
    epochs=120, curvature="kron-traced", weights={"lr": 1e-2}, hyper={"prior_lr": 0.1, "burn_in": 20, "every": 5}
)
RELAXATION = 0.3
# Sides of 16 pixels on two cores: four slices of each feature at 32 take four times as long.
SCALES = {
    "smoke": Scale(
        1,
        100,
        8,
        SMOKE.replace(weights={"prior_scaled_lr": True, "max_grad_norm": LONG.weights.max_grad_norm}),
        relaxation=RELAXATION,
    ),
    "cpu": Scale(2, 2000, 16, LONG, processes=2, relaxation=RELAXATION),
    "paper": Scale(2, None, 32, PAPER, train_augment="flips+shifts"),
}


def several_groups(
    scale: str, seed: int, data_dir: Path | None, progress: Progress, folder: Path | None = None
) -> Study:
    """Test accuracy of F-FC+CONV+GCONV by MAP and by the evidence on five data sets, and which paths they use.

    Arguments:
        scale: "smoke", "cpu" or "paper".
        seed: The seed of data, initial weights and training.
        data_dir: Where MNIST and CIFAR-10 are looked for first.
        progress: Told what is being done and the share of the whole that is done.
        folder: Where finished cells are kept; None to keep none.
    """
    chosen = SCALES[scale]
    jobs = [
        Job(name, NETWORK, method, settings(VARIANT, _at(version, scale), _for(version, scale), seed, data_dir))
        for name, version in VERSIONS.items()
        for method in METHODS
    ]
    cells = train_all(jobs, folder, progress, chosen.processes)
    return Study(
        name="groups",
        scale=scale,
        title="Shifts, quarter turns or neither: the groups that layers choose",
        config=configuration(chosen, seed) | {"network": VARIANT},
        versions=versions(),
        rows=[_row(cell) for cell in cells],
        series={"cells": [asdict(cell) for cell in cells]},
        claims=_claims(cells),
        seconds=spent(cells, chosen),
    )


def _at(version: Version, scale: str) -> Version:
    """The same version of the small data set, at the smallest scale."""
    return version._replace(data="mnist-mini") if scale == "smoke" else version


def _for(version: Version, scale: str) -> Scale:
    """How much of everything for one version: the paper trains on digits for 1,000 epochs, not 4,000 (App. F.6)."""
    chosen = SCALES[scale]
    shorter = scale == "paper" and version.data == "mnist"
    return replace(chosen, fit=chosen.fit.replace(epochs=1000)) if shorter else chosen


def _row(cell: Cell) -> dict[str, Any]:
    """The line of a network, with mean (least–most) of each path's share over layers, in %."""
    found = shares(cell.layers)
    return row(cell) | {
        f"{path} %": f"{100 * mean:.0f} ({100 * low:.0f}–{100 * high:.0f})" for path, (mean, low, high) in found.items()
    }


def _claims(cells: list[Cell]) -> list[Claim]:
    claims = []
    for data in VERSIONS:
        alone, learned = (accuracy(cells, data, NETWORK, method) for method in METHODS)
        claims.append(above(f"{data}: evidence beats MAP, accuracy", learned, alone))
        alone, learned = (loss(cells, data, NETWORK, method) for method in METHODS)
        claims.append(below(f"{data}: evidence beats MAP, test loss", learned, alone))
    means = {cell.data: shares(cell.layers)[GROUP_PATH][0] for cell in cells if cell.method == EVIDENCE}
    bar = max(mean for data, mean in means.items() if data not in ROTATED)
    found = ", ".join(f"{data} {100 * mean:.1f} %" for data, mean in means.items())
    holds = all(means[data] > bar for data in ROTATED)
    return [*claims, Claim("the GCONV share is highest on the rotated sets", f"> {100 * bar:.1f} %", found, holds)]
