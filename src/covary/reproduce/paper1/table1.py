"""Does learning the augmentation improve accuracy and evidence on data with unknown symmetries?

Paper 1, Table 1, MNIST and the MLP.
"""

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...config import ExperimentConfig
from ...experiments.build import learn, prepared, run_baseline
from ...records import Claim, Evidence, Metrics, Study
from ...training import versions
from ..cells import CellSpec, compute_cells, wall_time
from ..study import Request, above
from .recover import VERSIONS, settings

METHODS = ("plain", "augerino", "learned")
NUM_SEEDS = {"smoke": 1, "cpu": 3, "paper": 3}
PROCESSES = {"smoke": 1, "cpu": 2, "paper": 1}
CLOSE = 0.003  # how far below Augerino the learned network may be on fully rotated digits


@dataclass(frozen=True)
class Cell:
    """One method on one version of the data with one seed."""

    version: str
    method: str
    seed: int
    test: Metrics
    evidence: Evidence | None
    seconds: float


def mnist_mlp(request: Request) -> Study:
    """Test accuracy and evidence of the plain, Augerino's and the learned network on five versions of MNIST."""
    processes, num_seeds = PROCESSES[request.scale], NUM_SEEDS[request.scale]
    specs = [
        _spec(version, method, _settings(version, request._replace(seed=seed)))
        for seed in range(request.seed, request.seed + num_seeds)
        for version in VERSIONS
        for method in METHODS
    ]
    cells = list(compute_cells(specs, request.folder, request.progress, processes).values())
    return Study(
        name="mnist-mlp",
        scale=request.scale,
        title="MNIST and the MLP: plain, Augerino, learned",
        config=_settings("original", request).as_dict(),
        versions=versions(),
        rows=[_row(version, method, cells) for version in VERSIONS for method in METHODS],
        series={"cells": [_as_dict(cell) for cell in cells]},
        claims=_claims(cells),
        seconds=wall_time((cell.seconds for cell in cells), processes),
    )


def _settings(version: str, request: Request) -> ExperimentConfig:
    """Those of `recover`; coefficients as in the paper."""
    return replace(settings(version, request), augment="affine")


def _spec(version: str, method: str, config: ExperimentConfig) -> CellSpec[Cell]:
    name = f"{version}, {method}, seed {config.fit.seed}"
    return CellSpec(name, config.as_dict(), Cell, partial(_cell, version, method, config))


def _cell(version: str, method: str, config: ExperimentConfig) -> Cell:
    task = prepared(config)
    if method == "learned":
        run = learn(config, task).record
        test, evidence, seconds = run.test, run.evidence, run.seconds
    else:
        baseline = run_baseline(method, config, task)
        test, evidence, seconds = baseline.test, baseline.evidence, baseline.seconds
    assert test is not None, "MNIST has test data"
    return Cell(version, method, config.fit.seed, test, evidence, seconds)


def _as_dict(cell: Cell) -> dict[str, Any]:
    return {
        "version": cell.version,
        "method": cell.method,
        "seed": cell.seed,
        "accuracy": cell.test.accuracy,
        "nll": cell.test.nll,
        "log_evidence": None if cell.evidence is None else cell.evidence.log_evidence,
        "num_data": None if cell.evidence is None else cell.evidence.num_data,
        "seconds": cell.seconds,
    }


def _of(cells: list[Cell], version: str, method: str) -> list[Cell]:
    return [cell for cell in cells if (cell.version, cell.method) == (version, method)]


def _accuracy(cells: list[Cell], version: str, method: str) -> float:
    """The mean over seeds."""
    return statistics.fmean(cell.test.accuracy or 0.0 for cell in _of(cells, version, method))


def _evidence(cells: list[Cell], version: str, method: str) -> float | None:
    """The mean over seeds, per datum; None for a method that has none."""
    known = [cell.evidence for cell in _of(cells, version, method) if cell.evidence is not None]
    return statistics.fmean(evidence.log_evidence / evidence.num_data for evidence in known) if known else None


def _row(version: str, method: str, cells: list[Cell]) -> dict[str, Any]:
    accuracies = [100 * (cell.test.accuracy or 0.0) for cell in _of(cells, version, method)]
    return {
        "version": version,
        "method": method,
        "accuracy %": statistics.fmean(accuracies),
        "± over seeds": statistics.pstdev(accuracies),
        "nll": statistics.fmean(cell.test.nll for cell in _of(cells, version, method)),
        "evidence per datum": _evidence(cells, version, method),
        "seconds": statistics.fmean(cell.seconds for cell in _of(cells, version, method)),
    }


def _claims(cells: list[Cell]) -> list[Claim]:
    claims = []
    for version in VERSIONS:
        plain, augerino, learned = (_accuracy(cells, version, method) for method in METHODS)
        if version != "original":
            claims.append(above(f"{version}: learned above plain", learned, plain))
            slack = CLOSE if version == "fully rotated" else 0.0
            claims.append(
                above(f"{version}: learned {'near' if slack else 'above'} Augerino", learned, augerino - slack)
            )
        ours, theirs = _evidence(cells, version, "learned"), _evidence(cells, version, "plain")
        assert ours is not None, "it is evaluated"
        assert theirs is not None, "it is evaluated"
        found = f"{ours:.4f} against {theirs:.4f}"
        claims.append(Claim(f"{version}: evidence above plain", f"> {theirs:.4f} per datum", found, ours > theirs))
    return claims
