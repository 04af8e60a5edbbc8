"""From which end should relaxed layers start, the free or the equivariant one? Short runs decide, by their evidence."""

from typing import NamedTuple

from ..config import ExperimentConfig, FitConfig
from ..errors import StructureError
from .build import Task, learn

RELAXATION = 0.3  # of the equivariant start, unless the settings have another
PART = 4  # a short run has a fourth of the epochs
PRESETS = {"free": "layers", "equivariant": "layers-equivariant"}


class Choice(NamedTuple):
    """The start that was chosen."""

    name: str  # "free" or "equivariant"
    config: ExperimentConfig  # the settings of the whole run from there
    evidences: dict[str, float]  # the log evidence per datum of the short run from each start


def starts_of(config: ExperimentConfig) -> dict[str, ExperimentConfig]:
    """The settings from the free and from the equivariant start, alike but for the size and the steps of the paths."""
    relaxations = {"free": 1.0, "equivariant": config.relaxation if config.relaxation < 1 else RELAXATION}
    found = {}
    for name, preset in PRESETS.items():
        weights = FitConfig.preset(preset).weights
        own = {"prior_scaled_lr": weights.prior_scaled_lr, "max_grad_norm": weights.max_grad_norm}
        found[name] = config.replace(relaxation=relaxations[name], fit=config.fit.replace(weights=own))
    return found


def shortened(config: ExperimentConfig) -> ExperimentConfig:
    """The settings of a short run: a fourth of the epochs, of the burn-in and of the time between hyper steps."""
    fit = config.fit
    hyper: dict[str, object] = {"every": max(fit.hyper.every // PART, 1)}
    if fit.hyper.burn_in is not None:
        hyper["burn_in"] = fit.hyper.burn_in // PART
    epochs, warmup = max(fit.epochs // PART, 2), fit.weights.warmup_epochs // PART
    short = fit.replace(
        epochs=epochs, hyper=hyper, weights={"warmup_epochs": warmup}, evaluation={"num_evaluations": 1}
    )
    return config.replace(fit=short, baselines=(), fixed_widths={}, prune=None)


def best_start(config: ExperimentConfig, task: Task) -> Choice:
    """The start whose short run ends with the higher evidence; the whole run begins anew from there.

    Arguments:
        config: The settings of the whole run; a relaxation below 1 is that of the equivariant start.
    """
    if not config.is_relaxed or "+" not in config.network:
        raise StructureError(
            f"start='best' compares starts of a sum of paths, such as relaxed:f-fc+conv:4, got '{config.network}'. "
            "Name one, or use start='free'."
        )
    starts = starts_of(config)
    evidences = {}
    for name, settings in starts.items():
        evidence = learn(shortened(settings), task).record.evidence
        evidences[name] = float("-inf") if evidence is None else evidence.log_evidence / evidence.num_data
    best = max(evidences, key=lambda name: evidences[name])
    return Choice(best, starts[best], evidences)
