"""KFAC factors of the CNN of paper 1: time and memory of a factor pass against a training pass.

500 images of 28 × 28, S = 11 transformed copies of each, and S = 22 in batches half as large. A training pass is
forward and backward of the averaged negative log-likelihood over the same N × S images in the same batches.
"""

from functools import partial
from typing import Any

import torch

from .._types import Probes, Progress
from ..batches import as_batches
from ..curvature import kfac
from ..linalg import Block
from .measure import Pass, alternate, peak_memory, portion
from .workloads import Workload, build_workload, training_pass

SIZES = ((11, 500), (22, 250))  # (S, batch): the same S × batch twice
PASSES: dict[str, Probes | None] = {"training": None, "factors, one sketch": 1, "factors, exact": "exact"}


def measure_curvature(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """Rows of the training pass and of the factor pass with one sketch and with exact columns, for both S × batch."""
    rows = []
    for number, (num_samples, batch_size) in enumerate(SIZES):
        here = portion(progress, number, len(SIZES))
        build = partial(build_passes, num_samples, batch_size)
        passes = build()
        seconds = alternate(passes, repeats, here)
        for name, columns in PASSES.items():
            here(f"memory of {name}", 1.0)
            memory = peak_memory(build, name)
            bias: dict[str, Any] = _logdet_bias(passes) if columns == 1 else {}
            rows.append(
                bias
                | {
                    "workload": f"cnn, S={num_samples}, batch {batch_size}",
                    "pass": name,
                    "columns": columns,
                    "seconds": seconds[name],
                    "ratio": seconds[name] / seconds["training"],
                    "peak_mb": memory.peak_mb,
                    "pass_mb": memory.pass_mb,
                }
            )
    return rows


def build_passes(num_samples: int, batch_size: int) -> dict[str, Pass]:
    """The passes over the same data, network and batches."""
    workload = build_workload("W2")
    workload = workload._replace(network=workload.network.with_samples(num_samples), batch_size=batch_size)
    return {
        name: partial(training_pass, workload) if columns is None else partial(_factor_pass, workload, columns)
        for name, columns in PASSES.items()
    }


def _logdet_bias(passes: dict[str, Pass]) -> dict[str, Any]:
    """The relative change by one sketch of log|H + 1|."""
    sketch, exact = (passes[name]() for name in ("factors, one sketch", "factors, exact"))
    assert isinstance(sketch, Block)
    assert isinstance(exact, Block)
    return {"logdet_bias": float(sketch.logdet(1.0) / exact.logdet(1.0) - 1)}


@torch.no_grad()
def _factor_pass(workload: Workload, probes: Probes) -> Block:
    return kfac(workload.model, as_batches((workload.x, workload.y), workload.batch_size), probes=probes)
