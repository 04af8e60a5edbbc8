"""Is a symmetry that was put into the data found again?

Paper 1, Sec. 5.2, Fig. 3 and 4. Digits are rotated fully or partly, shifted, or scaled, each by its own random
amount; a network with one hidden layer learns all six affine widths together, on the scaled digits with coefficients
that may move together. What counts is that the right generator dominates, by the right amount.
"""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._types import Progress
from ..config import IMAGES, DiscoverConfig, FitConfig
from ..records import Baseline, Claim, Run, Study
from ..training import versions
from .invariance import learn, prepared, run_baseline

__all__ = ["VERSIONS", "dominant", "recover", "settings"]

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
# Widths that a network is trained with besides, for its evidence: a full circle, and the true shifts.
FIXED = {
    "fully rotated": {"rotation": 0.9999 * math.pi},
    "translated": {"shift_x": 8 / 14, "shift_y": 8 / 14},
}
TOLERANCE = 0.15
LEAST_FULL_ROTATION = 2.5
FLAT = 0.01  # share of the evidence by which that of a full circle may lie above the learned one


@dataclass(frozen=True)
class Scale:
    """How much of everything: the data, how many of them, the network, and its training."""

    data: str
    limit: int | None
    network: str
    num_samples: int
    fit: FitConfig


SCALES = {
    "smoke": Scale(
        "mnist-mini",
        200,
        "mlp:20",
        2,
        replace(IMAGES, epochs=3, burn_in=1, frequency=1, hyper_data=50, hyper_samples=4),
    ),
    "cpu": Scale("mnist", 5000, "mlp", 8, replace(IMAGES, epochs=30, burn_in=2, frequency=1, hyper_steps=4)),
    "paper": Scale(
        "mnist", None, "mlp", 31, replace(IMAGES, epochs=1000, batch_size=1000, burn_in=10, hyper_data=1000)
    ),
}


def recover(scale: str, seed: int, data_dir: Path | None, progress: Progress) -> Study:
    """The widths learned on five versions of MNIST, against the amounts that they were made with.

    Arguments:
        scale: "smoke", "cpu" or "paper".
        seed: The seed of data and training.
        data_dir: Where MNIST is looked for first.
        progress: Told what is being done and the share of the whole that is done.
    """
    started = time.perf_counter()
    runs: dict[str, Run] = {}
    for number, version in enumerate(VERSIONS):
        progress(version, number / (len(VERSIONS) + 1))
        config = settings(version, scale, seed, data_dir)
        task = prepared(config)
        runs[version] = replace(learn(config, task).record, true_widths=task.true_widths)
    fixed: dict[str, Baseline] = {}
    for number, (version, widths) in enumerate(FIXED.items()):
        progress(f"{version}, fixed widths", (len(VERSIONS) + 0.5 * number) / (len(VERSIONS) + 1))
        fixed[version] = _fixed(settings(version, scale, seed, data_dir), widths)
    circle = fixed["fully rotated"].evidence
    rows = [_row(version, run) for version, run in runs.items()]
    rows += [_fixed_row(version, baseline) for version, baseline in fixed.items()]
    return Study(
        name="recover",
        scale=scale,
        title="Known symmetries, found again by the evidence",
        config=settings("scaled", scale, seed, data_dir).as_dict(),
        versions=versions(),
        rows=rows,
        series={version: _series(run) for version, run in runs.items()},
        claims=[
            *_claims(runs, None if circle is None else circle.log_evidence),
            *([_speed(runs)] if scale == "cpu" else []),
        ],
        seconds=time.perf_counter() - started,
    )


def settings(version: str, scale: str, seed: int, data_dir: Path | None) -> DiscoverConfig:
    """The settings of one version of the data set."""
    chosen = SCALES[scale]
    return DiscoverConfig(
        data=chosen.data,
        data_dir=None if data_dir is None else str(data_dir),
        symmetrise=VERSIONS[version],
        limit=chosen.limit,
        network=chosen.network,
        augment="correlated" if version == "scaled" else "affine",
        num_samples=chosen.num_samples,
        fit=replace(chosen.fit, seed=seed),
    )


def dominant(widths: dict[str, float]) -> str:
    """The generator that moves the pixels of a centred object of half the image's size most, on average."""
    reach = {"shift_x": 1.0, "shift_y": 1.0, "rotation": 0.5, "scale_x": 0.35, "scale_y": 0.35, "shear": 0.5}
    return max(widths, key=lambda name: widths[name] * reach[name])


def _fixed(config: DiscoverConfig, widths: dict[str, float]) -> Baseline:
    """The network trained with widths that stay: is its evidence any higher than the learned one's?"""
    return run_baseline("fixed", replace(config, baselines=("fixed",), fixed_widths=widths), prepared(config))


def _fixed_row(version: str, baseline: Baseline) -> dict[str, Any]:
    return {
        "version": f"{version}, fixed widths",
        **{symmetry.name: round(symmetry.width, 3) for symmetry in baseline.symmetries},
        "log_evidence": None if baseline.evidence is None else baseline.evidence.log_evidence,
        "accuracy": None if baseline.test is None else baseline.test.accuracy,
        "seconds": baseline.seconds,
    }


def _widths(run: Run) -> dict[str, float]:
    return {symmetry.name: symmetry.width for symmetry in run.symmetries}


def _row(version: str, run: Run) -> dict[str, Any]:
    return {
        "version": version,
        **{name: round(width, 3) for name, width in _widths(run).items()},
        "dominant": dominant(_widths(run)),
        "log_evidence": None if run.evidence is None else run.evidence.log_evidence,
        "accuracy": None if run.test is None else run.test.accuracy,
        "seconds": run.seconds,
    }


def _series(run: Run) -> dict[str, Any]:
    return {
        "epochs": [epoch.epoch for epoch in run.history],
        "widths": {name: [epoch.widths[name] for epoch in run.history] for name in _widths(run)},
        "true_widths": run.true_widths,
        "correlation": run.correlation,
        "matrices": [] if run.samples is None else run.samples.matrices,
    }


def _claims(runs: dict[str, Run], circle: float | None) -> list[Claim]:
    claims = []
    for version, names in EXPECTED.items():
        found = dominant(_widths(runs[version]))
        claims.append(Claim(f"{version}: right generator", " or ".join(sorted(names)), found, found in names))
        if version != "fully rotated":
            claims += [_amount(version, name, runs[version]) for name in sorted(names)]
    claims += _full_rotation(runs["fully rotated"], circle)
    return claims


def _speed(runs: dict[str, Run]) -> Claim:
    slowest = max(run.seconds for run in runs.values())
    return Claim("every version in four minutes", "≤ 240 s", f"{slowest:.0f} s", slowest <= 240)


def _amount(version: str, name: str, run: Run) -> Claim:
    width, expected = _widths(run)[name], run.true_widths[name]
    bar = f"{expected:.3f} within {TOLERANCE:.0%}"
    return Claim(f"{version}: amount of {name}", bar, f"{width:.3f}", abs(width / expected - 1) <= TOLERANCE)


def _full_rotation(run: Run, circle: float | None) -> list[Claim]:
    width = _widths(run)["rotation"]
    bar = f"≥ {LEAST_FULL_ROTATION} rad"
    claims = [Claim("fully rotated: amount", bar, f"{width:.2f} rad", width >= LEAST_FULL_ROTATION)]
    if run.evidence is not None and circle is not None:
        gain = circle - run.evidence.log_evidence
        most = FLAT * abs(run.evidence.log_evidence)
        found = f"{gain:+.0f} nats for a full circle"
        claims.append(Claim("fully rotated: flat beyond", f"no more than {most:+.0f} nats", found, gain <= most))
    return claims
