"""Is a symmetry that was put into the data found again?

Paper 1, Sec. 5.2, Fig. 3 and 4. Digits are rotated fully or partly, shifted, or scaled, each by its own random
amount; a network with one hidden layer learns all six affine widths together, on the scaled digits with correlated
coefficients. The right generator should dominate, by the right amount.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...config import ExperimentConfig, FitConfig
from ...experiments.build import learn, prepared, run_baseline
from ...records import Baseline, Claim, RunRecord, Study
from ...training import versions
from ..cells import CellSpec, compute_cells
from ..study import Request

VERSIONS = {
    "fully rotated": "rotate:180",
    "partially rotated": "rotate:90",
    "translated": "translate:8",
    "scaled": "scale:2",
    "original": "none",
}
EXPECTED = {
    "fully rotated": {"rotation"},
    "partially rotated": {"rotation"},
    "translated": {"shift_x", "shift_y"},
    "scaled": {"scale_x", "scale_y"},
}
TOLERANCE = 0.15
MIN_FULL_ROTATION = 2.5
FLAT = 0.01  # fraction of the evidence by which that of a full circle may exceed that of the smallest rotation
# Networks with fixed widths, trained for their evidence -> the version of the data.
SMALLEST, CIRCLE = "fully rotated, ±2.5 rad fixed", "fully rotated, full circle fixed"
TRUE_SHIFTS, LEARNED_SHIFTS = "translated, true shifts fixed", "translated, learned shifts fixed"
FIXED = dict.fromkeys((SMALLEST, CIRCLE), "fully rotated") | dict.fromkeys((TRUE_SHIFTS, LEARNED_SHIFTS), "translated")


@dataclass(frozen=True)
class Scale:
    """The sizes of the study: the data and their number, the network, and its training."""

    data: str
    num_train: int | None
    network: str
    num_samples: int
    fit: FitConfig


# Steps as in paper 1, and as these results were measured: Adam, after a pass over all data, without a bound.
STEPS = FitConfig().replace(
    hyper={
        "estimator": "two_pass",
        "width_optimizer": "adam",
        "num_data": 250,
        "num_moves": 1,
        "num_steps": 8,
        "num_prior_steps": 8,
        "max_width_change": 100.0,
    },
    evaluation={"probes": "exact", "num_samples": 16},
)
SCALES = {
    "smoke": Scale(
        "mnist-mini",
        100,
        "mlp:20",
        2,
        STEPS.replace(
            epochs=2,
            hyper={"burn_in": 1, "every": 1, "num_data": 20, "num_samples": 4, "num_steps": 4, "num_prior_steps": 4},
            evaluation={"num_samples": 4, "num_error_data": 0},
        ),
    ),
    "cpu": Scale("mnist", 5000, "mlp", 8, STEPS.replace(epochs=30, hyper={"burn_in": 2, "every": 1, "num_steps": 4})),
    "paper": Scale(
        "mnist",
        None,
        "mlp",
        31,
        STEPS.replace(epochs=1000, weights={"batch_size": 1000}, hyper={"burn_in": 10, "num_data": 1000}),
    ),
}


def recover(request: Request) -> Study:
    """The widths learned on five versions of MNIST, or on some, against the true amounts of the data."""
    configs = {version: settings(version, request) for version in request.chosen_versions(VERSIONS)}
    learning = len(configs) / (len(configs) + sum(version in configs for version in FIXED.values()))
    specs = [CellSpec(name, config.as_dict(), RunRecord, partial(_learned, config)) for name, config in configs.items()]
    runs = compute_cells(specs, request.folder, request.within(0.0, learning).progress)
    compared = {
        name: replace(configs[FIXED[name]], baselines=("fixed",), fixed_widths=widths)
        for name, widths in _compared(runs).items()
    }
    others = [CellSpec(name, config.as_dict(), Baseline, partial(_fixed, config)) for name, config in compared.items()]
    fixed = compute_cells(others, request.folder, request.within(learning, 1.0).progress)
    rows = [_row(version, run) for version, run in runs.items()]
    rows += [_fixed_row(name, baseline) for name, baseline in fixed.items()]
    return Study(
        name="recover",
        scale=request.scale,
        title="Known symmetries, found again by the evidence",
        config=configs["scaled" if "scaled" in configs else next(iter(configs))].as_dict(),
        versions=versions(),
        rows=rows,
        series={version: _series(run) for version, run in runs.items()},
        claims=[
            *_claims(runs, fixed),
            *([_speed(runs)] if request.scale == "cpu" and not request.options.given else []),
        ],
        seconds=sum(run.seconds for run in runs.values()) + sum(baseline.seconds for baseline in fixed.values()),
    )


def settings(version: str, request: Request) -> ExperimentConfig:
    """The settings of one version of the data set."""
    chosen = SCALES[request.scale]
    return ExperimentConfig(
        data=chosen.data,
        data_dir=None if request.data_dir is None else str(request.data_dir),
        symmetrize=VERSIONS[version],
        num_train=request.options.num_train or chosen.num_train,
        network=chosen.network,
        augment="correlated" if version == "scaled" else "affine",
        num_samples=chosen.num_samples,
        fit=chosen.fit.replace(seed=request.seed),
    )


def dominant(widths: dict[str, float]) -> str:
    """The generator that moves the pixels of a centered object of half the image's size most, on average."""
    reach = {"shift_x": 1.0, "shift_y": 1.0, "rotation": 0.5, "scale_x": 0.35, "scale_y": 0.35, "shear": 0.5}
    return max(widths, key=lambda name: widths[name] * reach[name])


def _learned(config: ExperimentConfig) -> RunRecord:
    """The record of the network that learns its widths, with the true ones of the data."""
    task = prepared(config)
    return replace(learn(config, task).record, true_widths=task.true_widths)


def _compared(runs: dict[str, RunRecord]) -> dict[str, dict[str, float]]:
    """The widths of each network with fixed widths, on the versions that were learned."""
    found: dict[str, dict[str, float]] = {}
    if "fully rotated" in runs:
        found |= {SMALLEST: {"rotation": MIN_FULL_ROTATION}, CIRCLE: {"rotation": 0.9999 * math.pi}}
    if "translated" in runs:
        shifts, run = sorted(EXPECTED["translated"]), runs["translated"]
        found[TRUE_SHIFTS] = {name: run.true_widths[name] for name in shifts}
        found[LEARNED_SHIFTS] = {name: _widths(run)[name] for name in shifts}
    return found


def _fixed(config: ExperimentConfig) -> Baseline:
    """The network trained with fixed widths."""
    return run_baseline("fixed", config, prepared(config))


def _fixed_row(name: str, baseline: Baseline) -> dict[str, Any]:
    return {
        "version": name,
        **{symmetry.name: round(symmetry.width, 3) for symmetry in baseline.symmetries},
        "log_evidence": None if baseline.evidence is None else baseline.evidence.log_evidence,
        "accuracy": None if baseline.test is None else baseline.test.accuracy,
        "seconds": baseline.seconds,
    }


def _widths(run: RunRecord) -> dict[str, float]:
    return {symmetry.name: symmetry.width for symmetry in run.symmetries}


def _row(version: str, run: RunRecord) -> dict[str, Any]:
    return {
        "version": version,
        **{name: round(width, 3) for name, width in _widths(run).items()},
        "dominant": dominant(_widths(run)),
        "log_evidence": None if run.evidence is None else run.evidence.log_evidence,
        "accuracy": None if run.test is None else run.test.accuracy,
        "seconds": run.seconds,
    }


def _series(run: RunRecord) -> dict[str, Any]:
    return {
        "epochs": [epoch.epoch for epoch in run.history],
        "widths": {name: [epoch.widths[name] for epoch in run.history] for name in _widths(run)},
        "true_widths": run.true_widths,
        "correlation": run.correlation,
        "matrices": [] if run.samples is None else run.samples.matrices,
    }


def _claims(runs: dict[str, RunRecord], fixed: dict[str, Baseline]) -> list[Claim]:
    claims = []
    for version, names in EXPECTED.items():
        if version not in runs:
            continue
        found = dominant(_widths(runs[version]))
        claims.append(Claim(f"{version}: right generator", " or ".join(sorted(names)), found, found in names))
        if version != "fully rotated":
            claims += [_amount(version, name, runs[version]) for name in sorted(names)]
    if "fully rotated" in runs:
        width, bar = _widths(runs["fully rotated"])["rotation"], f"≥ {MIN_FULL_ROTATION} rad"
        claims.append(Claim("fully rotated: amount", bar, f"{width:.2f} rad", width >= MIN_FULL_ROTATION))
        claims.append(_flat(fixed))
    return [*claims, _preferred(fixed)] if "translated" in runs else claims


def _speed(runs: dict[str, RunRecord]) -> Claim:
    slowest = max(run.seconds for run in runs.values())
    return Claim("every version in four minutes", "≤ 240 s", f"{slowest:.0f} s", slowest <= 240)


def _amount(version: str, name: str, run: RunRecord) -> Claim:
    width, expected = _widths(run)[name], run.true_widths[name]
    bar = f"{expected:.3f} within {TOLERANCE:.0%}"
    return Claim(f"{version}: amount of {name}", bar, f"{width:.3f}", abs(width / expected - 1) <= TOLERANCE)


def _flat(fixed: dict[str, Baseline]) -> Claim:
    """Whether a full circle has no higher evidence than the smallest rotation, for the same training."""
    smallest, circle = (_log_evidence(fixed[name]) for name in (SMALLEST, CIRCLE))
    bar = FLAT * abs(smallest)
    found = f"{circle - smallest:+.0f} nats for a full circle"
    return Claim("fully rotated: flat beyond", f"no more than {bar:+.0f} nats", found, circle - smallest <= bar)


def _preferred(fixed: dict[str, Baseline]) -> Claim:
    """Whether the learned shifts have no lower evidence than the true ones, for the same training."""
    true, learned = (_log_evidence(fixed[name]) for name in (TRUE_SHIFTS, LEARNED_SHIFTS))
    found = f"{learned - true:+.0f} nats for the learned shifts"
    return Claim("translated: evidence of the learned shifts", "≥ that of the true ones", found, learned >= true)


def _log_evidence(baseline: Baseline) -> float:
    assert baseline.evidence is not None, "the evidence of a network with fixed widths is evaluated at its end"
    return baseline.evidence.log_evidence
