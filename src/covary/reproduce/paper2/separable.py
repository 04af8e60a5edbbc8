"""What do cheaper p4 convolutions cost in accuracy?

Paper 2, App. F.3, Table 7: filters over the four quarter turns in full, factored in two ways, or pointwise, beside a
plain CNN, by MAP on rotated images. Parameters are counted at the widths of the table; trained networks are narrower.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from ...config import FitConfig
from ...networks import build as build_network
from ...records import Claim, Study
from ..study import Request, above
from .layer_study import MAP, PAPER, SMOKE, Cell, Cells, Job, Scale, Version, train_all

DATA, IMAGE, NUM_CLASSES = "rotated CIFAR-10", (3, 32, 32), 10
TABLE_ALPHA = 10  # the width at which the table matches channels


class Factorization(NamedTuple):
    """A row of Table 7."""

    variant: str  # the variant of the reference network
    # its number of parameters at each width α of the table. That of "depthwise" at 10 is printed as 139,735: a
    # misprint, its other row fits
    counts: dict[int, int]
    paper: float  # the test accuracy that the paper reports at α = 10, in %


# From the highest accuracy in the paper to the lowest.
FACTORIZATIONS = {
    "full": Factorization("gconv-full", {10: 1_025_380, 6: 371_200}, 73.70),
    "pointwise": Factorization("gconv-pointwise", {10: 338_770}, 66.77),
    "separable": Factorization("gconv-separable", {10: 214_550, 13: 358_463}, 61.31),
    "plain CNN": Factorization("conv", {10: 338_770}, 57.89),
    "depthwise separable": Factorization("gconv-depthwise", {10: 139_725, 16: 346_215}, 51.63),
}

# A step of Adam moves an output by the sum over a filter's inputs: the full filter has four times as many as the
# pointwise one, and has a lower accuracy at higher learning rates.
GENTLE = FitConfig.preset("layers").replace(epochs=30, weights={"lr": 1e-3})
SCALES = {
    "smoke": Scale(1, 100, 8, SMOKE),
    "cpu": Scale(4, 5000, 16, GENTLE, processes=2, train_augment="flips+shifts"),
    "paper": Scale(10, None, 32, PAPER, train_augment="flips+shifts"),
}


def separable(request: Request) -> Study:
    """Test accuracy and number of parameters of four p4 convolutions and a plain CNN."""
    version = Version("mnist-mini" if request.scale == "smoke" else "cifar-10", "rotate:180")
    chosen = SCALES[request.scale]
    jobs = [
        Job(DATA, name, MAP, chosen.config(factorization.variant, version, request))
        for name, factorization in FACTORIZATIONS.items()
    ]
    cells = train_all(jobs, chosen, request)
    counts = {
        name: {alpha: count(found.variant, alpha) for alpha in found.counts} for name, found in FACTORIZATIONS.items()
    }
    study = cells.study(
        "separable",
        "Factorizations of convolutions over quarter turns",
        [*_count_claims(counts), *_order_claims(cells)],
        {"data": version.data, "symmetrize": version.symmetrize},
    )
    series = {
        "alpha": TABLE_ALPHA,
        "parameters": {name: found[TABLE_ALPHA] for name, found in counts.items()},
        "paper": {name: found.paper for name, found in FACTORIZATIONS.items()},
    }
    rows = [_row(cell, counts[cell.network]) for cell in cells.all]
    return replace(study, rows=rows, series=study.series | series)


def count(variant: str, alpha: int) -> int:
    """The number of parameters of the reference network on CIFAR-10, counted without memory for them."""
    with torch.device("meta"):
        network = build_network(f"relaxed:{variant}:{alpha}", IMAGE, NUM_CLASSES, 0)
    return sum(parameter.numel() for parameter in network.parameters())


def _row(cell: Cell, counts: dict[int, int]) -> dict[str, Any]:
    """The line of a factorization: as trained, at the widths of the table, and the paper's accuracy."""
    return cell.row() | {
        "parameters at α": ", ".join(f"{number:,} ({alpha})" for alpha, number in counts.items()),
        "paper's accuracy %": FACTORIZATIONS[cell.network].paper,
    }


def _count_claims(counts: dict[str, dict[int, int]]) -> list[Claim]:
    claims = []
    for name, factorization in FACTORIZATIONS.items():
        for alpha, expected in factorization.counts.items():
            found = counts[name][alpha]
            claims.append(Claim(f"{name}: parameters at α = {alpha}", f"{expected:,}", f"{found:,}", found == expected))
    return claims


def _order_claims(cells: Cells) -> list[Claim]:
    """Whether the accuracy of each row of the table is above that of the next."""
    claims = []
    for higher, lower in pairwise(FACTORIZATIONS):
        first, second = (cells.accuracy(DATA, name, MAP) for name in (higher, lower))
        claims.append(above(f"accuracy: {higher} above {lower}", first, second))
    return claims
