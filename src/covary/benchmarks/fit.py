"""Whole runs: learning the augmentation against Augerino, fixed widths and plain training, end to end.

All methods start from the same initial weights and see the same data for as many epochs. `seconds` has everything from
the first step to the final evaluation of the evidence, `ratio` is relative to Augerino (in the workloads of a prior
alone: to a fixed weight decay). The test accuracy is measured after each epoch, outside of these seconds: `curve` has
pairs of seconds and accuracy, `seconds_to_goal` is the time at which the accuracy that Augerino ends with is reached.
"""

import math
import statistics
import time
from typing import Any, NamedTuple

from .._types import Progress
from ..config import ExperimentConfig, discover_config
from ..data import Dataset
from ..experiments.build import Task, prepared, start_of
from ..models import Model
from ..records import Epoch, RunRecord
from ..training import Callback, Run, fit, measure
from .measure import portion

NUM_TESTED = 2000  # test images of a point of a curve


class FitWorkload(NamedTuple):
    """A run: its settings, the methods that are compared, and the one that `ratio` is relative to."""

    config: ExperimentConfig
    methods: tuple[str, ...] = ("augerino", "plain", "fixed", "learned")
    reach: float | None = None


def _config(network: str, epochs: int, **settings: Any) -> ExperimentConfig:
    return discover_config(network).replace(**settings, epochs=epochs)


_DIGITS = {
    "data": "mnist-mini",
    "symmetrize": "rotate:90",
    "baselines": ("fixed",),
    "fixed_widths": {"rotation": math.pi / 2},
}
FIT_WORKLOADS: dict[str, FitWorkload] = {
    "mlp-5000": FitWorkload(_config("mlp", 30, **_DIGITS), reach=1.25),
    "cnn-5000": FitWorkload(_config("cnn", 30, **_DIGITS), reach=1.3),
    "resnet-3000": FitWorkload(
        _config("resnet-8-8", 30, data="cifar-10", num_train=3000), ("augerino", "plain", "learned"), 1.3
    ),
    "mlp-60000": FitWorkload(_config("mlp", 10, **_DIGITS | {"data": "mnist"}), reach=1.15),
    "cnn-prior": FitWorkload(
        _config("cnn", 30, data="mnist-mini", symmetrize="rotate:90", augment="none"), ("map", "learned"), 1.15
    ),
}


def measure_fit(repeats: int, progress: Progress, names: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """One row per workload and method; of several repeats, which alternate, the medians of the seconds."""
    chosen = {name: FIT_WORKLOADS[name] for name in names or FIT_WORKLOADS}
    rows = []
    for number, (name, workload) in enumerate(chosen.items()):
        rows += fit_rows(name, workload, repeats, portion(progress, number, len(chosen)))
    return rows


def fit_rows(name: str, workload: FitWorkload, repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """The rows of one workload."""
    task = prepared(workload.config)
    found: dict[str, list[Measured]] = {method: [] for method in workload.methods}
    for repeat in range(repeats):
        for number, method in enumerate(workload.methods):
            done = (repeat + number / len(workload.methods)) / repeats
            progress(f"{name}, {method}: repeat {repeat + 1} of {repeats}", done)
            found[method].append(run_method(method, workload.config, task))
    base = workload.methods[0]
    seconds = {method: statistics.median(run.seconds for run in runs) for method, runs in found.items()}
    goal = found[base][0].curve[-1][1]
    return [
        {
            "workload": name,
            "method": method,
            "seconds": seconds[method],
            "ratio": seconds[method] / seconds[base],
            "reach": workload.reach if method == "learned" else None,
            **_results(runs[0].record),
            "seconds_to_goal": _first_reached(runs[0].curve, goal),
            "curve": runs[0].curve,
        }
        for method, runs in found.items()
    ]


class Measured(NamedTuple):
    """A run, the seconds that it took without tests, and its test accuracy over time."""

    record: RunRecord
    seconds: float
    curve: list[tuple[float, float]]


class _Tested(Callback):
    """Test accuracy after each epoch, without the time that testing takes."""

    def __init__(self, model: Model, dataset: Dataset, seed: int) -> None:
        self.model, self.seed = model, seed
        self.test = dataset.x_test[:NUM_TESTED], dataset.y_test[:NUM_TESTED]
        self.curve: list[tuple[float, float]] = []
        self.outside = 0.0

    def on_epoch(self, epoch: Epoch) -> None:
        """Measure the accuracy; the epoch's seconds include the earlier tests."""
        started = time.monotonic()
        accuracy = measure(self.model.network, self.model.likelihood, self.test, self.seed).accuracy
        self.curve.append((epoch.seconds - self.outside, accuracy or 0.0))
        self.outside += time.monotonic() - started


def run_method(method: str, config: ExperimentConfig, task: Task) -> Measured:
    """One run of a method; "learned" is the run itself, the others are its baselines."""
    network, prior, settings = start_of(method, config, task)
    model = Model(network, prior=prior)
    tested = _Tested(model, task.dataset, config.fit.seed)
    run: Run = fit(model, task.dataset.train, settings, test=task.dataset.test, callbacks=[tested])
    return Measured(run.record, run.record.seconds - tested.outside, tested.curve)


def _results(record: RunRecord) -> dict[str, Any]:
    test, evidence = record.test, record.evidence
    return {
        "accuracy": None if test is None else test.accuracy,
        "nll": None if test is None else test.nll,
        "log_evidence": None if evidence is None else evidence.log_evidence,
        "widths": {symmetry.name: symmetry.width for symmetry in record.symmetries},
    }


def _first_reached(curve: list[tuple[float, float]], goal: float) -> float | None:
    return next((seconds for seconds, accuracy in curve if accuracy >= goal), None)
