"""KFAC factors of the CNN of paper 1: time and memory of a factor pass against a training pass.

500 images of 28 × 28, S = 11 augmentation samples of each, and S = 22 in batches half as large. A training pass is
forward and backward of the averaged negative log-likelihood over the same N × S images in the same batches.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from .._types import Probes, Progress
from ..curvature import kfac
from ..linalg import Block
from ..networks import Averaged
from .measure import Pass, Workload, alternate, bench_row, build_workload, peak_memory, portion, training_pass

SIZES = ((11, 500), (22, 250))  # (S, batch): the same S × batch twice
ONE, EXACT = "factors, one probe", "factors, exact"
PASSES: dict[str, Probes | None] = {"training": None, ONE: 1, EXACT: "exact"}


def measure_curvature(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """Rows of the training pass and of the factor pass with one probe and with exact ones, for both S × batch."""
    rows = []
    for number, (num_samples, batch_size) in enumerate(SIZES):
        here = portion(progress, number, len(SIZES))
        build = partial(build_passes, num_samples, batch_size)
        passes = build()
        seconds = alternate(passes, repeats, here)
        for name, probes in PASSES.items():
            here(f"memory of {name}", 1.0)
            memory = peak_memory(build, name)
            row = bench_row(f"cnn, S={num_samples}, batch {batch_size}", name, probes, seconds, memory)
            rows.append(row | {"pass_mb": memory.pass_mb} | (_logdet_bias(passes) if probes == 1 else {}))
    return rows


def build_passes(num_samples: int, batch_size: int) -> dict[str, Pass]:
    """The passes over the same data, network and batches."""
    workload = build_workload("W2")
    network = workload.model.network
    assert isinstance(network, Averaged)
    model = replace(workload.model, network=network.with_samples(num_samples))
    workload = workload._replace(model=model, batch_size=batch_size)
    return {
        name: partial(training_pass, workload) if probes is None else partial(_factor_pass, workload, probes)
        for name, probes in PASSES.items()
    }


def _logdet_bias(passes: dict[str, Pass]) -> dict[str, Any]:
    """The relative error of log|H + 1| with one probe."""
    one, exact = (passes[name]() for name in (ONE, EXACT))
    assert isinstance(one, Block)
    assert isinstance(exact, Block)
    return {"logdet_bias": float(one.logdet(1.0) / exact.logdet(1.0) - 1)}


@torch.no_grad()
def _factor_pass(workload: Workload, probes: Probes) -> Block:
    return kfac(workload.model, workload.batches, probes=probes)
