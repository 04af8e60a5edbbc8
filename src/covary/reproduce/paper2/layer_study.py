"""The training that the studies of layer-wise equivariance share: the reference network of paper 2, by two methods.

*MAP* keeps every prior precision at 1 and takes no hyper steps; *evidence* learns the precisions (App. F.6). Both
start from the same initial weights, which a `relaxation` below 1 scales for *evidence* alone, and see the same data in
the same order for the same number of epochs.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, final

from ...config import ExperimentConfig, FitConfig, HyperConfig, WeightConfig, layers_config
from ...config.experiment import TaskName
from ...experiments.build import learn, model, prepared, prior_of, run_baseline
from ...experiments.starts import best_start
from ...records import Claim, Evidence, Layer, Metrics, Study
from ...training import versions
from ..cells import CellSpec, compute_cells, wall_time
from ..study import Request

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
        num_samples=None,
        num_sets=1,
        num_steps=1,
        num_prior_steps=20,
        lr_min=0.0,
        prior_lr=0.1,
    ),
)


class Version(NamedTuple):
    """A data set, the symmetry that is put into it, and the task that is made of it."""

    data: str
    symmetrize: str = "none"
    task: TaskName = "none"


@final
@dataclass(frozen=True)
class Scale:
    """The sizes of a study."""

    alpha: int  # the width α
    num_train: int | None  # the number of training images; None for all
    size: int  # the side of the images
    fit: FitConfig
    processes: int = 1  # the number of networks that are trained at a time
    # the augmentation of CIFAR-10 in weight updates, as in App. F.6; digits have none
    train_augment: Literal["none", "flips+shifts"] = "none"
    # the initial scale of the weights of all paths but the equivariant one, if precisions are learned
    relaxation: float = 1.0
    # "given" by the relaxation, or "best": for each sum of paths, the end that short runs prefer
    start: Literal["given", "best"] = "given"
    num_seeds: int = 1

    def with_options(self, request: Request) -> "Scale":
        """The sizes with what was asked for besides."""
        options = request.options
        return replace(
            self,
            num_train=options.num_train or self.num_train,
            num_seeds=options.num_seeds or self.num_seeds,
            processes=options.processes or self.processes,
        )

    def requests(self, request: Request) -> list[Request]:
        """The request of each seed."""
        return [request._replace(seed=seed) for seed in range(request.seed, request.seed + self.num_seeds)]

    def config(self, network: str, version: Version, request: Request) -> ExperimentConfig:
        """The settings of one network on one version of the data.

        Arguments:
            network: The paths of each layer, such as "f-fc+conv"; "s-fc+s-conv:weight" has the kind of length-scales.
            version: The data.
            request: The arguments of the study.
        """
        variant, _, length_scale = network.partition(":")
        return replace(
            layers_config(variant, self.alpha, length_scale or "fixed"),
            data=version.data,
            data_dir=None if request.data_dir is None else str(request.data_dir),
            symmetrize=version.symmetrize,
            task=version.task,
            num_train=self.num_train,
            size=self.size,
            train_augment=self.train_augment if version.data == "cifar-10" else "none",
            relaxation=self.relaxation,
            fit=self.fit.replace(seed=request.seed),
        )

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, those of the training among them."""
        plain = asdict(self)
        return {name: value for name, value in plain.items() if name != "fit"} | plain["fit"]


class Job(NamedTuple):
    """One network to be trained by one method: the names of data, network and method, and the settings."""

    data: str
    network: str
    method: str
    config: ExperimentConfig


@final
@dataclass(frozen=True)
class Cell:
    """The result of one job."""

    data: str  # the version of the data, by name
    network: str  # the network, by name
    method: str  # "MAP" or "evidence"
    num_params: int
    test: Metrics
    evidence: Evidence | None  # the evidence of the training data; None for MAP
    layers: list[Layer]  # the summary of each layer; empty for MAP
    seconds: float  # the time of training, loading and layer summary
    seed: int = 0
    start: str = "given"  # "given" by the settings, or "free" or "equivariant", as short runs chose

    def row(self) -> dict[str, Any]:
        """One line of a table."""
        known = self.evidence
        return {
            "data": self.data,
            "network": self.network,
            "method": self.method,
            "parameters": self.num_params,
            "accuracy %": 100 * (self.test.accuracy or 0.0),
            "nll": self.test.nll,
            "evidence per datum": None if known is None else known.log_evidence / known.num_data,
            "seed": self.seed,
            "start": self.start,
            "seconds": round(self.seconds, 1),
        }

    def shares(self) -> dict[str, tuple[float, float, float]]:
        """Mean, minimum and maximum over layers of each path's relative effective parameters (Table 3)."""
        found: dict[str, list[float]] = {}
        for layer in self.layers:
            for path in layer.paths:
                found.setdefault(path.name, []).append(path.relative)
        return {name: (statistics.fmean(values), min(values), max(values)) for name, values in found.items()}


@final
@dataclass(frozen=True)
class Cells:
    """All trained networks of a study."""

    all: list[Cell]  # the cells, in the order of their jobs
    scale: Scale
    request: Request

    def tests(self, data: str, network: str, method: str) -> list[Metrics]:
        """Metrics of the test data of one network by one method, for each seed."""
        wanted = (data, network, method)
        return [cell.test for cell in self.all if (cell.data, cell.network, cell.method) == wanted]

    def accuracy(self, data: str, network: str, method: str) -> float:
        """The mean test accuracy over seeds, in [0, 1]."""
        return statistics.fmean(test.accuracy or 0.0 for test in self.tests(data, network, method))

    def loss(self, data: str, network: str, method: str) -> float:
        """The mean test loss over seeds, in nats per datum."""
        return statistics.fmean(test.nll for test in self.tests(data, network, method))

    def best_accuracy(self, data: str, network: str) -> float:
        """The higher test accuracy of a network of both methods."""
        return max(self.accuracy(data, network, method) for method in METHODS)

    @property
    def seconds(self) -> float:
        """The seconds of all cells, with as many processes as the scale has, over all sessions of the study."""
        return wall_time((cell.seconds for cell in self.all), self.scale.processes)

    def study(self, name: str, title: str, claims: list[Claim], config: dict[str, Any]) -> Study:
        """The record of the study."""
        return Study(
            name=name,
            scale=self.request.scale,
            title=title,
            config=self.scale.as_dict() | {"seed": self.request.seed} | config,
            versions=versions(),
            rows=[cell.row() for cell in self.all],
            series={"cells": [asdict(cell) for cell in self.all]},
            claims=claims,
            seconds=self.seconds,
        )


def train_all(jobs: Sequence[Job], scale: Scale, request: Request) -> Cells:
    """The cells of all jobs, with those of earlier sessions in the folder of the request."""
    specs = [
        CellSpec(_name(job), job.config.as_dict() | _chosen(job, scale), Cell, partial(_trained, job, scale.start))
        for job in jobs
    ]
    cells = compute_cells(specs, request.folder, request.progress, scale.processes)
    return Cells(list(cells.values()), scale, request)


def _name(job: Job) -> str:
    return f"{job.data}, {job.network}, {job.method}, seed {job.config.fit.seed}"


def _chosen(job: Job, scale: Scale) -> dict[str, Any]:
    """The setting that a cell has besides, where short runs choose its start."""
    return {"start": "best"} if _has_starts(job, scale.start) else {}


def _has_starts(job: Job, start: str) -> bool:
    return start == "best" and job.method == EVIDENCE and "+" in job.config.network


def _trained(job: Job, start: str) -> Cell:
    started, config, began = time.perf_counter(), job.config, "given"
    task = prepared(config)
    if _has_starts(job, start):
        choice = best_start(config, task)
        config, began = choice.config, choice.name
    num_params = prior_of(config, model(config, task)).num_params
    evidence: Evidence | None = None
    layers: list[Layer] = []
    if job.method == MAP:
        fit = config.fit.replace(evaluation={"num_evaluations": 0})
        # no evaluation of the evidence: it takes as long as some epochs, and MAP does not use it
        test = run_baseline("map", replace(config, fit=fit), task).test
    else:
        record = learn(config, task).record
        test, evidence, layers = record.test, record.evidence, record.layers
    assert test is not None, "every version has test data"
    seconds = time.perf_counter() - started
    return Cell(job.data, job.network, job.method, num_params, test, evidence, layers, seconds, config.fit.seed, began)
