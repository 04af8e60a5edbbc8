"""Plain, Augerino's and learned networks side by side: one cell per network, and its record.

Tables 1 and 2, Figure 5 and Appendices C to E of paper 1 are all made of these cells.
"""

import base64
import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from torch import Tensor

from ...config import ExperimentConfig, discover_config
from ...experiments.build import prepared, trained
from ...networks import Averaged
from ...records import Evidence, Metrics, Pictures
from ...training import Run, measure
from ..cells import CellSpec
from ..study import Request
from .recover import VERSIONS

METHODS = ("plain", "augerino", "learned")
NUM_PICTURES = 6  # samples of the augmentation that a record keeps, of one image


class Sizes(NamedTuple):
    """The sizes of a scale."""

    num_train: int | None  # the number of training images; None for all
    epochs: int
    num_seeds: int
    test_samples: int  # the augmentation samples that a test prediction averages over
    settings: dict[str, object]  # other settings, by name
    processes: int = 1  # how many networks are trained at once


# Networks at scale "smoke".
SMALL = {"mlp": "mlp:20", "cnn": "lenet"} | dict.fromkeys(("resnet-8-8", "resnet-8-16", "resnet-14-16"), "resnet-8-2")
_SMOKE: dict[str, object] = {
    **{"weights.batch_size": 10, "weights.lr": 0.01, "weights.warmup_epochs": 0},
    **{"num_samples": 2, "hyper.burn_in": 1, "hyper.num_samples": 2},
}
# As in App. B.3, where the number of images is that of the paper.
_PAPER_RESNET: dict[str, object] = {"weights.batch_size": 250, "num_samples": 20}
_PAPER: dict[str, object] = {"weights.batch_size": 1000, "num_samples": 31, "weights.lr": 5e-3}
# Few samples in weight steps train as well as eight (measured). The evidence is that of the average over eight.
_CPU: dict[str, object] = {"num_samples": 4, "hyper.num_samples": 8, "evaluation.num_samples": 8}
_CPU_RESNET = _CPU | {"num_samples": 2}
_FULL: dict[str, object] = {"num_samples": 2, "weights.batch_size": 100, "evaluation.num_samples": 8}
PAPER_EPOCHS = {"resnet": 200, "mlp": 1000, "cnn": 1000}


def sizes_of(scale: str, network: str) -> Sizes:
    """The sizes of a scale for a network: a test averages over about as many samples as the paper's, 31."""
    kind = network.partition("-")[0]
    if scale == "smoke":
        return Sizes(100, 2, 1, 2, _SMOKE)
    if scale == "paper":
        return Sizes(None, PAPER_EPOCHS[kind], 3, 31, _PAPER_RESNET if kind == "resnet" else _PAPER)
    if scale == "full":
        return Sizes(None, 30, 1, 32, _FULL, processes=2)
    return Sizes(5000, 30, 2, 32, _CPU_RESNET if kind == "resnet" else _CPU, processes=2)


@dataclass(frozen=True)
class Cell:
    """One method on one version of the data with one seed."""

    version: str
    method: str  # "plain", "augerino" or "learned"
    seed: int
    num_train: int
    test: Metrics
    evidence: Evidence | None  # the evidence of the training data; None for Augerino
    widths: dict[str, list[float]]  # the widths after each epoch, by name; empty for a plain network
    learned: dict[str, float]  # the widths of the network that was kept
    true_widths: dict[str, float]  # the amounts that the data were made with
    correlation: list[list[float]] | None  # the correlation of the coefficients, where it was learned
    samples: Pictures | None  # one image with samples of the learned augmentation; None for other methods
    # why what was learned cannot be trusted, and other warnings of the fit; None where there are none
    problem: str | None
    seconds: float  # the time of training


class Job(NamedTuple):
    """One network to be trained: the version of the data, the method, the settings, and the samples of its test."""

    version: str
    method: str
    config: ExperimentConfig
    test_samples: int

    def spec(self, name: str) -> CellSpec[Cell]:
        """The cell of the job under a name; its settings are all that its numbers depend on."""
        settings = self.config.as_dict() | {"test_samples": self.test_samples}
        return CellSpec(name, settings, Cell, partial(_cell, self))


def config_of(data: str, network: str, version: str, request: Request, num_train: int | None) -> ExperimentConfig:
    """The settings of one version: those that covary uses for a network of this name, at the sizes of the scale."""
    smoke, sizes = request.scale == "smoke", sizes_of(request.scale, network)
    return discover_config(SMALL.get(network, network) if smoke else network).replace(
        data="mnist-mini" if smoke else data,
        data_dir=None if request.data_dir is None else str(request.data_dir),
        symmetrize=VERSIONS[version],
        num_train=num_train,
        epochs=sizes.epochs,
        seed=request.seed,
        **{"evaluation.num_error_data": 0} | sizes.settings,  # a cell has no error bars
    )


def _cell(job: Job) -> Cell:
    """Train one network and test it."""
    task = prepared(job.config)
    with warnings.catch_warnings(record=True) as told:  # they are kept with the record, not lost among many networks
        run = trained(job.method, job.config, task)
    record = run.record
    problems = [record.problem] if record.problem else [str(warning.message) for warning in told]
    return Cell(
        version=job.version,
        method=job.method,
        seed=job.config.fit.seed,
        num_train=len(task.dataset.x_train),
        test=_tested(run, job, task.dataset.test),
        evidence=record.evidence,
        widths={s.name: [epoch.widths[s.name] for epoch in record.history] for s in record.symmetries},
        learned={symmetry.name: symmetry.width for symmetry in record.symmetries},
        true_widths=task.true_widths,
        correlation=record.correlation,
        samples=_few(record.samples) if job.method == "learned" else None,
        problem=" ".join(problems) or None,
        seconds=record.seconds,
    )


def _tested(run: Run, job: Job, test: tuple[Tensor, Tensor]) -> Metrics:
    """The metrics of the test data, with as many samples as the job asks for."""
    network = run.network
    if isinstance(network, Averaged):
        network = network.with_samples(job.test_samples)
    return measure(network, run.likelihood, test, job.config.fit.seed)


def _few(samples: Pictures | None) -> Pictures | None:
    """The first image alone: a record of every network should be small."""
    if samples is None:
        return None
    num_versions = min(samples.shape[1], 1 + NUM_PICTURES)
    kept = samples.values()[: num_versions * math.prod(samples.shape[2:])]
    return replace(
        samples,
        shape=[1, num_versions, *samples.shape[2:]],
        pixels=base64.b64encode(kept).decode(),
        labels=samples.labels[:1],
        matrices=samples.matrices[: num_versions - 1],
    )


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean over seeds; None of one seed."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


@dataclass(frozen=True)
class Group:
    """The cells of one method on one version, one per seed."""

    cells: list[Cell]

    @property
    def accuracies(self) -> list[float]:
        """Test accuracies in [0, 1]."""
        return [cell.test.accuracy or 0.0 for cell in self.cells]

    @property
    def accuracy(self) -> float:
        """The mean test accuracy, in [0, 1]."""
        return statistics.fmean(self.accuracies)

    @property
    def evidence(self) -> float | None:
        """The mean log evidence per datum; None for a method without one."""
        known = [cell.evidence for cell in self.cells if cell.evidence is not None]
        return statistics.fmean(found.log_evidence / found.num_data for found in known) if known else None

    def row(self) -> dict[str, float | None]:
        """Means over seeds, with the standard error of the accuracy."""
        error = standard_error([100 * accuracy for accuracy in self.accuracies])
        known = [cell.test.ece for cell in self.cells if cell.test.ece is not None]
        return {
            "accuracy %": 100 * self.accuracy,
            "± standard error": error,
            "nll": statistics.fmean(cell.test.nll for cell in self.cells),
            "ece": statistics.fmean(known) if known else None,
            "evidence per datum": self.evidence,
            "seconds": statistics.fmean(cell.seconds for cell in self.cells),
            "problems": sum(cell.problem is not None for cell in self.cells) or None,
        }


def group(cells: Sequence[Cell], version: str, method: str) -> Group:
    """The cells of a method on a version."""
    return Group([cell for cell in cells if (cell.version, cell.method) == (version, method)])
