r"""Sharpness and evidence of a saved network in Cartesian and in polar coordinates: `covary geometry`.

Curvature is the generalized Gauss–Newton matrix, summed over training images, known by its products in the coordinates
ψ of each chart. Naive is its trace and its largest eigenvalues there; metric-aware those of :math:`E = M^{-1} H` with
the prior's precisions as metric, where an eigenvalue of 1 is a direction in which data and prior have equal weight. The
evidence uses :math:`\log|I + M^{-1} H|`. No matrix of size P × P is formed.
"""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .. import geometry
from .._types import Progress, SampleAveraging
from ..batches import IndexedBatch, outputs_of
from ..likelihoods import Categorical
from ..priors import Prior
from ..records import Claim, RunRecord, Study, read_run
from ..training import versions
from ..training.schedule import EVALUATE, seed_for
from .restore import Replacements, restored

ROWS = 500  # images times augmentation samples in the products, by default
TRACE_PRODUCTS, NUM_EIGENVALUES, EIGENVALUE_STEPS, NUM_PROBES, PROBE_STEPS = 30, 3, 5, 8, 5
SAME = 1e-3  # relative: rounding in single precision, through Krylov spaces
NAMES = ("Cartesian", "polar")
KINDS = ("naive", "metric-aware")


class Saved(NamedTuple):
    """A saved network, with the images of its curvature."""

    network: nn.Module
    prior: Prior
    batch: IndexedBatch
    seed: int


class Measured(NamedTuple):
    """Trace and largest eigenvalues of one kind of curvature, and the evidence with its 95 % error."""

    trace: geometry.Estimate
    largest: geometry.Estimate
    log_evidence: float
    error: float

    def row(self) -> dict[str, float]:
        """The numbers of a row of the table."""
        return {
            "trace": float(self.trace.value),
            "trace ±": float(self.trace.error),
            "eigenvalue": float(self.largest.value[0]),
            "eigenvalue ±": float(self.largest.error[0]),
            "log evidence": self.log_evidence,
            "log evidence ±": self.error,
        }


def saved_geometry(folder: Path, given: Replacements, num_images: int | None, seed: int, progress: Progress) -> Study:
    """Sharpness and evidence of a saved run, naive and metric-aware, in Cartesian and in polar coordinates.

    Arguments:
        folder: The folder of a run of `discover` or `layers`.
        given: What to use in place of what the record names.
        num_images: The number of training images; by default 500 divided by the augmentation samples per image.
        seed: The seed of the random probes.
        progress: Called with the current step and the fraction of the work that is done.
    """
    started = time.perf_counter()
    progress("loading", 0.0)
    run = read_run(folder)
    saved = _saved(run, folder, num_images, given)
    weights = saved.prior.weights(saved.network)
    charts = dict(
        zip(NAMES, (geometry.CARTESIAN, geometry.network_chart(weights, {"*": _polar_or_cartesian})), strict=True)
    )
    rows, series = [], {}
    for number, (name, chart) in enumerate(charts.items()):
        progress(name, (number + 0.1) / len(charts))
        for kind, found in zip(KINDS, _measured(saved, chart, seed), strict=True):
            rows.append({"chart": name, "kind": kind} | found.row())
            series[f"{name}, {kind}"] = {"value": found.largest.value.tolist(), "error": found.largest.error.tolist()}
    num_params = sum(weight.numel() for weight in weights.values())
    return Study(
        name="geometry",
        scale="run",
        title=f"{run.title}: curvature of {len(saved.batch.x):,} images, {num_params:,} weights",
        config=run.config | {"num_images": len(saved.batch.x), "num_params": num_params, "probe_seed": seed},
        versions=versions(),
        rows=rows,
        series={"eigenvalues": series},
        claims=_claims(rows),
        seconds=time.perf_counter() - started,
    )


def _measured(saved: Saved, chart: geometry.Chart, seed: int) -> tuple[Measured, Measured]:
    """Sharpness and evidence in one chart, naive and metric-aware, differentiated in its coordinates."""
    weights = saved.prior.weights(saved.network)
    charted = geometry.InChart(saved.network, weights, chart)
    metric = geometry.flat_metric({name: shift.detach() for name, shift in saved.prior.shifts().items()}, weights)
    plain = geometry.gauss_newton(charted, tuple(saved.batch), seed=saved.seed)
    carried = plain.under(metric, charted.point)
    log_det = geometry.estimate_log_det(carried, 1.0, num_probes=NUM_PROBES, num_steps=PROBE_STEPS, seed=seed)
    naive, proper = _evidences(saved, charted, metric, log_det.value)
    return _sharpness(plain, seed, naive, log_det), _sharpness(carried, seed, proper, log_det)


def _sharpness(matrix: geometry.MatrixFree, seed: int, log_evidence: float, log_det: geometry.Estimate) -> Measured:
    trace = geometry.estimate_trace(matrix, num_products=TRACE_PRODUCTS, seed=seed)
    largest = geometry.top_eigenvalues(matrix, NUM_EIGENVALUES, num_steps=EIGENVALUE_STEPS, seed=seed)
    return Measured(trace, largest, log_evidence, 0.5 * float(log_det.error))


@torch.no_grad()
def _evidences(
    saved: Saved, charted: geometry.InChart, metric: Float[Tensor, " P"], log_det: Float[Tensor, ""]
) -> tuple[float, float]:
    """The naive and the proper evidence, as in `evidence.invariant`; the precision is H + M, with M the prior's."""
    psi, weights = charted.psi.detach(), saved.prior.weights(saved.network)
    outputs = outputs_of(charted, saved.batch, saved.seed)
    log_likelihood = float(Categorical().log_prob(outputs, saved.batch.y).double())
    # in double: a million logarithms would round away nats
    volume = float(geometry.diagonal_metric(metric.double()).to(charted.chart).log_det(psi.double()))
    log_prior = float(saved.prior.log_density(weights))
    change = float(charted.chart.log_det(charted.chart.inverse(psi.double())))
    constant = 0.5 * len(psi) * math.log(2 * math.pi) - 0.5 * float(log_det)
    naive = log_likelihood + log_prior + constant - 0.5 * volume
    proper = log_likelihood + (log_prior - change - 0.5 * volume) + constant
    return naive, proper


def _polar_or_cartesian(weight: Tensor) -> geometry.Chart:
    """Polar coordinates of the rows of a weight; Cartesian ones if it has no rows, or one of them is zero."""
    if weight.ndim < 2 or not bool(weight.detach().flatten(1).norm(dim=1).all()):
        return geometry.CARTESIAN
    return geometry.polar_of(weight)


def _saved(run: RunRecord, folder: Path, num_images: int | None, given: Replacements) -> Saved:
    config, task, model = restored(run, folder, given)
    num_samples = model.network.num_samples if isinstance(model.network, SampleAveraging) else 1
    number = min(num_images or max(ROWS // num_samples, 1), len(task.dataset.x_train))
    x, y = (tensor[:number] for tensor in task.dataset.train)
    batch = IndexedBatch(x, y, torch.arange(number))
    return Saved(model.network, model.prior, batch, seed_for(config.fit.seed, EVALUATE))


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """Which numbers depend on the coordinates, and which do not."""
    (here, kept), (there, carried) = rows[:2], rows[2:]
    shift, noise = abs(there["eigenvalue"] - here["eigenvalue"]), there["eigenvalue ±"] + here["eigenvalue ±"]
    stable = max(abs(carried[key] / kept[key] - 1) for key in ("trace", "eigenvalue"))
    moved, stays = (abs(b["log evidence"] - a["log evidence"]) for a, b in ((here, there), (kept, carried)))
    bar = SAME * max(abs(kept["log evidence"]), 1.0)
    return [
        Claim("the naive eigenvalue depends on the coordinates", f"> {noise:.3g}", f"{shift:.3g}", shift > noise),
        Claim("the metric-aware trace and eigenvalue do not", f"< {SAME:.1%}", f"{stable:.1e}", stable < SAME),
        Claim("the naive evidence depends on the coordinates", "> 1 nat", f"{moved:.1f}", moved > 1),
        Claim("the proper evidence does not", f"< {bar:.2g} nats", f"{stays:.1e}", stays < bar),
    ]
