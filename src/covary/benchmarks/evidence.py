"""A hyper step against a training pass: log Z and its gradient in six affine widths and all prior precisions.

All N data in both passes. W1: MLP 784-1000-10 tanh, 1,000 MNIST images, S = 31. W2: CNN 16-32-64, 500 images, S = 11.
W2': LeNet, the same. W4: Fixup ResNet 8-8, the same with images of CIFAR-10, where they are found. Rows with one probe
have the bias of its log-determinant and of its gradient; `peak_share` is the fraction of the machine's matrix-multiply
peak, measured in the same run, that a pass reaches.
"""

import math
import time
import warnings
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from .. import data
from .._types import Probes, Progress
from ..curvature import Curvature
from ..errors import DataError
from ..hypergrad import HyperGradient, two_pass
from .measure import Pass, Workload, alternate, bench_row, build_workload, peak_memory, portion, training_pass

NAMES = ("W1", "W2", "W2'")
PASSES: dict[str, Probes | None] = {"training": None, "hyper step, one probe": 1, "hyper step, exact": "exact"}


def measure_evidence(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """Rows of the training pass and of the hyper step with one probe and with exact ones, for each workload."""
    rows = []
    peak = _matmul_peak()
    names = (*NAMES, "W4") if _has_photographs() else NAMES
    for number, workload_name in enumerate(names):
        here = portion(progress, number, len(names))
        build = partial(build_passes, workload_name)
        seconds = alternate(build(), repeats, here)
        workload = build_workload(workload_name)
        for name, probes in PASSES.items():
            here(f"{workload_name}: memory and bias of {name}", 1.0)
            row = bench_row(workload_name, name, probes, seconds, peak_memory(build, name))
            row["peak_share"] = _flops(build()[name]) / seconds[name] / peak
            rows.append(row | (probe_bias(workload) if probes == 1 else {}))
    return rows


def _has_photographs() -> bool:
    """Whether CIFAR-10 is found; a warning says that W4 is left out where it is not."""
    try:
        data.load("cifar-10")
    except DataError as error:
        warnings.warn(f"W4 is left out. {error}", stacklevel=2)
        return False
    return True


def build_passes(name: str) -> dict[str, Pass]:
    """The passes over the same data, network and batches."""
    workload = build_workload(name)
    return {
        name: partial(training_pass, workload) if probes is None else partial(hyper_step, workload, probes)
        for name, probes in PASSES.items()
    }


def hyper_step(workload: Workload, probes: Probes, seed: int = 0) -> HyperGradient:
    """Log Z and its gradient with respect to every hyperparameter."""
    return two_pass(workload.model, workload.batches, Curvature(probes=probes), seed=seed)


def probe_bias(workload: Workload) -> dict[str, Any]:
    """The relative errors of log|H + δ| − log|δ| with one probe, and of the gradient along its exact direction."""
    exact, one = hyper_step(workload, "exact"), hyper_step(workload, 1)
    truth, estimate = _flat(exact), _flat(one)
    return {
        "logdet_bias": float(_log_ratio(workload, one) / _log_ratio(workload, exact) - 1),
        "gradient_bias": float((estimate @ truth) / (truth @ truth) - 1),
    }


def _log_ratio(workload: Workload, gradient: HyperGradient) -> torch.Tensor:
    """log|H + δ| where δ = 1."""
    return workload.model.prior.num_params * math.log(2 * math.pi) - 2 * gradient.terms.log_volume


def _flat(gradient: HyperGradient) -> torch.Tensor:
    return torch.cat([gradient[name].flatten() for name in sorted(gradient)])


def _flops(run: Pass) -> float:
    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops())


def _matmul_peak() -> float:
    """Floating-point operations per second of a square matrix product, the best of several."""
    a = torch.randn(2000, 2000, generator=torch.Generator().manual_seed(0))
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2 * len(a) ** 3 / min(seconds)
