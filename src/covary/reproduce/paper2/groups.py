"""Is the right symmetry group chosen among several?

Paper 2, Sec. 6.3, Table 3. Each layer is the sum of a free path, one that commutes with shifts, and one that commutes
with shifts and quarter turns; the use of each is measured by its relative number of effective parameters. The last
should be used more on rotated data.
"""

from dataclasses import replace
from statistics import fmean
from typing import Any

from ...config import FitConfig
from ...records import Claim, Study
from ..study import Request, above, below
from .layer_study import EVIDENCE, METHODS, PAPER, SMOKE, Cell, Cells, Job, Scale, Version, train_all

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

# The paper's first learning rates and schedule of hyper steps (App. F.6), with a longer burn-in: layers start as their
# equivariant path, which must have learned something before the first hyper step. If all paths start alike, the dense
# ones memorize the images first, and the evidence ends far below that of the equivariant paths alone. KFAC overstates
# the curvature of each path by a different factor, and Table 3 compares paths: partial traces far less.
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
    "full": Scale(2, 4000, 16, LONG, processes=2, relaxation=RELAXATION, start="best", num_seeds=2),
    "paper": Scale(2, None, 32, PAPER, train_augment="flips+shifts"),
}


def several_groups(request: Request) -> Study:
    """Test accuracy of F-FC+CONV+GCONV by MAP and by the evidence on five data sets, and which paths they use."""
    chosen = SCALES[request.scale].with_options(request)
    jobs = [
        Job(name, NETWORK, method, _scale_for(version, request).config(VARIANT, _at(version, request), seeded))
        for seeded in chosen.requests(request)
        for name, version in VERSIONS.items()
        for method in METHODS
    ]
    cells = train_all(jobs, chosen, request)
    title = "Shifts, quarter turns or neither: the groups that layers choose"
    study = cells.study("groups", title, _claims(cells), {"network": VARIANT})
    return replace(study, rows=[_row(cell) for cell in cells.all])


def _at(version: Version, request: Request) -> Version:
    """The version of the data; of the small data set at the smallest scale."""
    return version._replace(data="mnist-mini") if request.scale == "smoke" else version


def _scale_for(version: Version, request: Request) -> Scale:
    """The sizes for one version of the data: the paper trains on digits for 1,000 epochs, not 4,000 (App. F.6)."""
    chosen = SCALES[request.scale].with_options(request)
    shorter = request.scale == "paper" and version.data == "mnist"
    return replace(chosen, fit=chosen.fit.replace(epochs=1000)) if shorter else chosen


def _row(cell: Cell) -> dict[str, Any]:
    """The line of a network, with mean (minimum–maximum) over layers of each path's effective parameters, in %."""
    return cell.row() | {
        f"{path} %": f"{100 * mean:.0f} ({100 * low:.0f}–{100 * high:.0f})"
        for path, (mean, low, high) in cell.shares().items()
    }


def _claims(cells: Cells) -> list[Claim]:
    claims = []
    for data in VERSIONS:
        alone, learned = (cells.accuracy(data, NETWORK, method) for method in METHODS)
        claims.append(above(f"{data}: evidence beats MAP, accuracy", learned, alone))
        alone, learned = (cells.loss(data, NETWORK, method) for method in METHODS)
        claims.append(below(f"{data}: evidence beats MAP, test loss", learned, alone))
    shares = [(cell.data, cell.shares()[GROUP_PATH][0]) for cell in cells.all if cell.method == EVIDENCE]
    means = {data: fmean(share for name, share in shares if name == data) for data in dict(shares)}
    bar = max(mean for data, mean in means.items() if data not in ROTATED)
    found = ", ".join(f"{data} {100 * mean:.1f} %" for data, mean in means.items())
    holds = all(means[data] > bar for data in ROTATED)
    return [*claims, Claim("the GCONV share is highest on the rotated sets", f"> {100 * bar:.1f} %", found, holds)]
