"""What changes as training goes on, as functions of how far it has gone."""

import math

from ..config import FitConfig
from ..noise import fold

# Uses of a run's seed, kept apart.
WEIGHTS, HYPER, EVALUATE, SAMPLES, TEST = range(5)


def cosine(first: float | int, final: float | int, progress: float | int) -> float:
    r"""Rate :math:`f + \frac12 (r - f)(1 + \cos \pi p)` at progress p in [0, 1], from r = `first` to f = `final`."""
    return final + 0.5 * (first - final) * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))


def warmth(epochs: float | int, config: FitConfig) -> float:
    """The fraction of their learning rate that weights have in the step that ends after this (fractional) epoch."""
    return min(1.0, epochs / config.weights.warmup_epochs) if config.weights.warmup_epochs else 1.0


def is_hyper_epoch(epoch: int, config: FitConfig) -> bool:
    """Whether a hyper step follows the epoch of this number, from 1."""
    return (
        config.hyper.estimator != "augerino"
        and epoch > config.hyper.burn_in
        and (epoch - config.hyper.burn_in) % config.hyper.every == 0
    )


def num_hyper_epochs(config: FitConfig) -> int:
    """The number of epochs that a hyper step follows."""
    if config.hyper.estimator == "augerino":
        return 0
    return max(config.epochs - config.hyper.burn_in, 0) // config.hyper.every


def hyper_progress(epoch: int, config: FitConfig) -> float:
    """How far the hyperparameters' schedule has gone at this epoch: 0 at the burn-in's end, 1 at the last epoch."""
    return (epoch - 1 - config.hyper.burn_in) / max(config.epochs - 1 - config.hyper.burn_in, 1)


def is_evaluated_epoch(epoch: int, config: FitConfig) -> bool:
    """Whether the state after this epoch is evaluated: evenly spread after the burn-in, the last one among them."""
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
