"""What the studies of layer-wise equivariance share: the reference network of paper 2, trained in two ways.

*MAP* keeps every prior precision at 1 and takes no hyper steps; *evidence* learns the precisions (App. F.6). Both
start from the same draw of weights, which a `relaxation` below 1 scales for *evidence* alone, and see the same data in
the same order for as many epochs.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..._types import Progress
from ...config import ExperimentConfig, FitConfig, HyperConfig, WeightConfig, layers_config
from ...experiments.build import learn, model, prepared, run_baseline
from ...priors import Prior
from ...records import Evidence, Layer, Metrics
from ..cells import Piece, made, wall_time

MAP, EVIDENCE = METHODS = ("MAP", "evidence")

SMOKE = FitConfig.preset("layers").replace(
    epochs=2,
    weights={"batch_size": 200, "warmup_epochs": 0},
    hyper={"burn_in": 1, "every": 1, "num_data": 20, "num_steps": 1, "num_prior_steps": 2},
)
PAPER = FitConfig(
    epochs=4000,
    weights=WeightConfig(lr=1e-2, lr_min=0.0, batch_size=128),
    hyper=HyperConfig(
        burn_in=10,
        every=5,
        probes="exact",
        num_data=None,
        num_samples=None,
        num_sets=1,
        num_steps=1,
        num_prior_steps=20,
        lr_min=0.0,
        prior_lr=0.1,
    ),
)


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Arguments:
        alpha: The width α.
        num_train: How many training images; None for all.
        size: Their side.
        fit: The training.
        processes: How many networks are trained at a time.
        train_augment: What weight updates see of CIFAR-10, as in App. F.6; of digits always "none".
        relaxation: The size that weights of all paths but the strict one start with, where precisions are learned.
    """

    alpha: int
    num_train: int | None
    size: int
    fit: FitConfig
    processes: int = 1
    train_augment: Literal["none", "flips+shifts"] = "none"
    relaxation: float = 1.0


class Version(NamedTuple):
    """A data set, the symmetry that is put into it, and the task that is made of it."""

    data: str
    symmetrize: str = "none"
    task: str = "none"


class Job(NamedTuple):
    """One network to be trained one way: the names of data, network and method, and the settings."""

    data: str
    network: str
    method: str
    config: ExperimentConfig


@dataclass(frozen=True)
class Cell:
    """What one job came to.

    Arguments:
        data: The version of the data, by name.
        network: The network, by name.
        method: "MAP" or "evidence".
        num_params: The number of its weights.
        test: How it predicts the test data.
        evidence: The evidence of the training data; None for MAP, which does not follow it.
        layers: What each layer became; empty for MAP.
        seconds: How long it took, data and layer summary included.
    """

    data: str
    network: str
    method: str
    num_params: int
    test: Metrics
    evidence: Evidence | None
    layers: list[Layer]
    seconds: float


def settings(network: str, version: Version, scale: Scale, seed: int, data_dir: Path | None) -> ExperimentConfig:
    """The settings of one network on one version of the data.

    Arguments:
        network: The paths of each layer, such as "f-fc+conv"; "s-fc+s-conv:weight" says, too, what length-scales are.
        version: The data.
        scale: How much of everything.
        seed: The seed of data, initial weights and training.
        data_dir: Where data sets are looked for first.
    """
    variant, _, length_scale = network.partition(":")
    return replace(
        layers_config(variant, scale.alpha, length_scale or "fixed"),
        data=version.data,
        data_dir=None if data_dir is None else str(data_dir),
        symmetrize=version.symmetrize,
        task=version.task,
        num_train=scale.num_train,
        size=scale.size,
        train_augment=scale.train_augment if version.data == "cifar-10" else "none",
        relaxation=scale.relaxation,
        fit=scale.fit.replace(seed=seed),
    )


def configuration(scale: Scale, seed: int) -> dict[str, Any]:
    """The settings that all cells of a study have in common, by name."""
    plain = asdict(scale)
    return {name: value for name, value in plain.items() if name != "fit"} | plain["fit"] | {"seed": seed}


def train_all(jobs: Sequence[Job], folder: Path | None, progress: Progress, processes: int = 1) -> list[Cell]:
    """The cells of all jobs, those that an earlier session left in the folder among them.

    Arguments:
        jobs: The jobs, in the order in which they are begun.
        folder: Where finished cells are kept; None to keep none.
        progress: As in `made`.
        processes: How many are trained at a time.
    """
    pieces = [Piece(_name(job), job.config.as_dict(), Cell, partial(_trained, job)) for job in jobs]
    return list(made(pieces, folder, progress, processes).values())


def spent(cells: Sequence[Cell], scale: Scale) -> float:
    """The seconds that all cells take, as many at a time as the scale says, over all sessions of a study."""
    return wall_time((cell.seconds for cell in cells), scale.processes)


def _name(job: Job) -> str:
    return f"{job.data}, {job.network}, {job.method}"


def _trained(job: Job) -> Cell:
    begun, config = time.perf_counter(), job.config
    task = prepared(config)
    num_params = Prior(model(config, task), config.prior).num_params
    evidence: Evidence | None = None
    layers: list[Layer] = []
    if job.method == MAP:
        # no judgement: its pass takes as long as some epochs, and nothing follows it
        test = run_baseline(
            "map", replace(config, fit=config.fit.replace(evaluation={"num_evaluations": 0})), task
        ).test
    else:
        record = learn(config, task).record
        test, evidence, layers = record.test, record.evidence, record.layers
    assert test is not None, "every version has test data"
    seconds = time.perf_counter() - begun
    return Cell(job.data, job.network, job.method, num_params, test, evidence, layers, seconds)


def row(cell: Cell) -> dict[str, Any]:
    """One line of a table."""
    known = cell.evidence
    return {
        "data": cell.data,
        "network": cell.network,
        "method": cell.method,
        "parameters": cell.num_params,
        "accuracy %": 100 * (cell.test.accuracy or 0.0),
        "nll": cell.test.nll,
        "evidence per datum": None if known is None else known.log_evidence / known.num_data,
        "seconds": round(cell.seconds, 1),
    }


def accuracy(cells: Sequence[Cell], data: str, network: str, method: str) -> float:
    """The test accuracy of one cell, in [0, 1]."""
    return _test(cells, data, network, method).accuracy or 0.0


def loss(cells: Sequence[Cell], data: str, network: str, method: str) -> float:
    """The test loss of one cell, in nats per datum."""
    return _test(cells, data, network, method).nll


def _test(cells: Sequence[Cell], data: str, network: str, method: str) -> Metrics:
    wanted = (data, network, method)
    return next(cell.test for cell in cells if (cell.data, cell.network, cell.method) == wanted)


def best_accuracy(cells: Sequence[Cell], data: str, network: str) -> float:
    """The test accuracy of a network by the method that serves it better."""
    return max(accuracy(cells, data, network, method) for method in METHODS)


def shares(layers: Sequence[Layer]) -> dict[str, tuple[float, float, float]]:
    """Mean, least and most over layers of each path's relative number of effective parameters (Table 3)."""
    found: dict[str, list[float]] = {}
    for layer in layers:
        for path in layer.paths:
            found.setdefault(path.name, []).append(path.relative)
    return {name: (statistics.fmean(values), min(values), max(values)) for name, values in found.items()}
