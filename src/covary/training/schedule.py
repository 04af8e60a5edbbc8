"""What changes as training goes on, as functions of how far it has gone."""

import math
from typing import Any

from ..config import FitConfig
from ..curvature.registry import automatic_probes
from ..noise import fold

# Uses of a run's seed, kept apart.
WEIGHTS, HYPER, EVALUATE, SAMPLES, TEST, ERRORS = range(6)
BURN_IN_STEPS = 400
MIN_HYPER_STEPS = 1.0, 2.0  # per epoch: in general, and with few data
FEW_DATA = 2500
FRACTION = 0.1  # of the data that weight steps read
MAX_HYPER_STEPS = 80  # in a run: widths settle in some thirty, however many data there are
DEAD_STEPS = 200  # weight steps without any gain over a constant
HYPER_SHARE = 0.8  # of the epochs after the burn-in, over which learning rates of hyperparameters fall


def cosine(first: float | int, final: float | int, progress: float | int) -> float:
    r"""Value :math:`f + \frac12 (r - f)(1 + \cos \pi p)` at progress p in [0, 1], from r = `first` to f = `final`."""
    return final + 0.5 * (first - final) * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))


def warmth(epochs: float | int, config: FitConfig) -> float:
    """The fraction of their learning rate that weights have in the step that ends after this (fractional) epoch."""
    return min(1.0, epochs / config.weights.warmup_epochs) if config.weights.warmup_epochs else 1.0


def filled_in(config: FitConfig, num_data: int) -> FitConfig:
    """The settings with all that they leave to the number of data."""
    automatic = "exact" if config.curvature == "full" else automatic_probes(num_data)
    groups: dict[str, Any] = {"hyper": {"burn_in": burn_in_epochs(config, num_data)}, "evaluation": {}}
    for name, group in (("hyper", config.hyper), ("evaluation", config.evaluation)):
        groups[name]["probes"] = automatic if group.probes == "auto" else group.probes
    return config.replace(**groups)


def burn_in_epochs(config: FitConfig, num_data: int) -> int:
    """The epochs before the first hyper step, where the settings leave them open."""
    if config.hyper.burn_in is not None:
        return config.hyper.burn_in
    steps_per_epoch = math.ceil(max(num_data, 1) / config.weights.batch_size)  # a stream has not been counted yet
    return min(math.ceil(BURN_IN_STEPS / steps_per_epoch), max(config.epochs // 6, 1))


def dead_epochs(config: FitConfig, num_data: int) -> int:
    """The epochs without any gain over a constant prediction after which a network counts as collapsed."""
    steps_per_epoch = math.ceil(num_data / config.weights.batch_size)
    return config.weights.warmup_epochs + max(math.ceil(DEAD_STEPS / steps_per_epoch), 4)


def hyper_steps_due(epochs: float | int, data_per_step: int, num_data: int, config: FitConfig) -> int:
    """The hyper steps that are due after this (fractional) number of epochs.

    With "running" they are spread evenly over the weight steps, so that they read the wanted fraction of the data, and
    at least one in each epoch (two with few data); with other estimators they follow epochs. Where the settings leave
    the fraction open it is a tenth, or what 80 steps in a run amount to if that is less.

    Arguments:
        epochs: The epochs done.
        data_per_step: The data that a hyper step reads.
        num_data: N, the number of training data.
        config: The settings, with the burn-in filled in.
    """
    assert config.hyper.burn_in is not None, "the burn-in is filled in when a fit starts"
    since = epochs - config.hyper.burn_in
    if config.hyper.estimator == "augerino" or since < 0:
        return 0
    if config.hyper.estimator != "running":
        return int(since) // config.hyper.every
    most = MAX_HYPER_STEPS / max(config.epochs - config.hyper.burn_in, 1)
    fraction = config.hyper.fraction
    wanted = (FRACTION if fraction is None else fraction) * num_data / data_per_step
    rate = max(wanted if fraction is not None else min(wanted, most), MIN_HYPER_STEPS[num_data < FEW_DATA])
    return math.floor(since * rate + 1e-9) + 1


def hyper_progress(epochs: float | int, config: FitConfig, begun: float | None = None) -> float:
    """How far the schedule of the hyperparameters has gone: 0 after the burn-in, 1 at its end.

    With "running" it ends after its share of the epochs that follow the burn-in, or that follow the epoch in which the
    widths began to be learned.
    """
    assert config.hyper.burn_in is not None, "the burn-in is filled in when a fit starts"
    if config.hyper.estimator == "running":
        first = config.hyper.burn_in if begun is None else begun
        return (epochs - first) / max(HYPER_SHARE * (config.epochs - first), 1)
    return (epochs - 1 - config.hyper.burn_in) / max(config.epochs - 1 - config.hyper.burn_in, 1)


def is_evaluated_epoch(epoch: int, config: FitConfig) -> bool:
    """Whether the state after this epoch is evaluated: evenly spread after the burn-in, the last one among them."""
    assert config.hyper.burn_in is not None, "the burn-in is filled in when a fit starts"
    span, number = config.epochs - config.hyper.burn_in, config.evaluation.num_evaluations
    if number == 0 or span < 1:
        return number > 0 and epoch == config.epochs
    before_end = config.epochs - epoch
    near = before_end * number // span  # the rank that is spread to this epoch, or one beside it
    ranks = range(max(near - 1, 0), min(near + 3, number))
    return epoch > config.hyper.burn_in and any(round(rank * span / number) == before_end for rank in ranks)


def seed_for(seed: int, use: int, number: int = 0) -> int:
    """The seed of one use of noise at one epoch."""
    return fold(fold(seed, use), number)
