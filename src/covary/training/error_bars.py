r"""Error bars of learned widths: what the data leave open, and what the noise of the hyper steps adds.

The standard error of a width w is

.. math:: e^2 = J^{-1} + s^2 + (g/J)^2,

with J the information of the data on w (`hypergrad.information`: weights follow, all other widths, the prior and the
likelihood are held), s the standard deviation of w over the last quarter of the hyper steps that learned it, and g/J
the way that remains to the maximum of the evidence, by its gradient g. The last is part of the sum where all data were
read: fewer do not determine it. The interval is w ± 1.645 e, cut at 0 and at the largest possible width: 90 % of a
normal distribution.

A width has no error bar if it was not learned, or if the evidence has no maximum near it (J ≤ 0), as for a width that
is still on its way or at the end of its range.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import stdev

import torch
from torch import Tensor, nn

from ..augment import Augmentation
from ..batches import Batches
from ..config import FitConfig
from ..distributed import own, own_part
from ..hypergrad.information import Direction, Information, Sample, information_along, parameters_of
from ..models import Model
from ..noise import Stream, permutation
from ..records import Symmetry
from .ascent import evaluated_curvature, hyper_model
from .hyper_state import HyperState
from .schedule import ERRORS, seed_for
from .widths import augmentation_of

NORMAL_90 = 1.6448536269514722
TAIL = 4  # the last quarter of the hyper steps
NUM_BLOCKS = 10  # of M data
LEAST_STEP, MOST_STEP, PART = 0.005, 0.05, 0.1  # of the differences: a part of the width, within bounds
MOST_MOVE = 0.5  # of a parameter, such as the logit of a probability that is nearly 0
LARGEST = {"radians": math.pi, "radians of hue": math.pi, "probability": 1.0}


def with_errors(
    symmetries: Sequence[Symmetry], state: HyperState, batches: Batches, config: FitConfig
) -> list[Symmetry]:
    """The symmetries with standard error and interval of each width, where it has one.

    A width that is fixed has none, and neither has one at its limit, where the evidence has no maximum.

    Arguments:
        symmetries: What was learned, in the order of the augmentation's names.
        state: The state that was kept.
        batches: All training data; this process reads its shard.
        config: The settings, filled in.
    """
    augment = augmentation_of(state.network)
    learned = state.learning.begun is not None and config.hyper.estimator != "augerino"
    if augment is None or not learned or not config.evaluation.num_error_data or not config.evaluation.num_evaluations:
        return list(symmetries)
    model = hyper_model(state, config)
    lines = width_lines(augment, model)
    held = ("fixed", "at its limit")
    chosen = [k for k, line in enumerate(lines) if line is not None and symmetries[k].state not in held]
    sample = _sample(batches, state.num_data, config)
    found = information_along(
        model,
        sample,
        evaluated_curvature(config),
        [line for k in chosen if (line := lines[k]) is not None],
        seed=seed_for(config.seed, ERRORS),
    )
    noises, known = step_noise(state.learning.widths), dict(zip(chosen, found, strict=True))
    others = [(noises[k] if noises else 0.0, len(sample.blocks) == 1) for k in range(len(symmetries))]
    return [
        _with_error(symmetry, known[k], *others[k]) if k in known else symmetry for k, symmetry in enumerate(symmetries)
    ]


def width_lines(augment: Augmentation, model: Model) -> list[tuple[Direction, float] | None]:
    """For each width the shortest displacement of parameters that changes it alone, per unit, and the step to take.

    None for a width that no parameter changes to first order, such as one that is 0.
    """
    assert isinstance(augment, nn.Module), "an augmentation with parameters is a module"
    parameters = parameters_of(augment, model)
    if not parameters:
        return [None] * len(augment.names)
    with torch.enable_grad():
        widths = augment.widths
        rows = [torch.autograd.grad(width, list(parameters.values()), retain_graph=True) for width in widths]
    jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows]).double()
    columns = torch.linalg.pinv(jacobian).T
    return [
        _line(parameters, column, float(width)) if bool(row.any()) else None
        for column, row, width in zip(columns, jacobian, widths.tolist(), strict=True)
    ]


def _line(parameters: dict[str, nn.Parameter], column: Tensor, width: float) -> tuple[Direction, float]:
    parts = column.split([parameter.numel() for parameter in parameters.values()])
    direction = {
        name: part.view_as(parameter).to(parameter)
        for (name, parameter), part in zip(parameters.items(), parts, strict=True)
    }
    step = min(max(PART * width, LEAST_STEP), MOST_STEP)
    return direction, min(step, MOST_MOVE / float(column.abs().max()))


def step_noise(widths: Sequence[Sequence[float]]) -> list[float]:
    """The standard deviation of each width over the last quarter of its hyper steps; empty with fewer than two.

    Arguments:
        widths: The widths before the first and after each hyper step.
    """
    tail = widths[-max(len(widths) // TAIL, 2) :]
    return [stdev(trajectory) for trajectory in zip(*tail, strict=True)] if len(tail) > 1 else []


def _sample(batches: Batches, num_data: int, config: FitConfig) -> Sample:
    """All data, or as many of them as the settings allow, in blocks."""
    most = config.evaluation.num_error_data
    if batches.read is None or most >= num_data or most < 2 * NUM_BLOCKS:
        return Sample([own_part(batches)], num_data)
    size = most // NUM_BLOCKS
    order = permutation(seed_for(config.seed, ERRORS), num_data, stream=Stream.SUBSET)
    return Sample([batches.at(own(part)) for part in order[: NUM_BLOCKS * size].split(size)], num_data)


def _with_error(symmetry: Symmetry, information: Information, noise: float, whole: bool) -> Symmetry:
    """The symmetry with its error bar, where the evidence has a maximum; `whole` if all data were read."""
    total = information.total
    if not (math.isfinite(total) and total > 0 and math.isfinite(information.gradient) and math.isfinite(noise)):
        return symmetry
    remaining = information.gradient / total if whole else 0.0
    error = math.sqrt(1 / total + noise**2 + remaining**2)
    low, high = symmetry.width - NORMAL_90 * error, symmetry.width + NORMAL_90 * error
    return replace(symmetry, error=error, interval=[max(low, 0.0), min(high, LARGEST.get(symmetry.unit, math.inf))])
