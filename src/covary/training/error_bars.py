r"""Error bars of learned widths: what the data leave open, the noise of the hyper steps, and the way that remains.

The evidence is even in the width w of a symmetric range, such as rotations within ±w: near 0 the data say something
about :math:`u = w^2` and nothing about w. So the standard error is that of u,

.. math:: e^2 = I^{-1} + (2 w s)^2 + d^2,

with I the information of the data on u (`hypergrad.information`: weights are integrated out, all other widths, the
prior and the likelihood are held), s the standard deviation of w over the last quarter of the hyper steps that learned
it, and d the way that remains to the maximum of the evidence, by a Newton step; only the side of the interval that it
leads to has it:

.. math:: d^2 = (g^2 - \sigma_g^2) / I^2 \text{ where } |g| > 3 \sigma_g \text{, else } 0.

g is the gradient of the evidence in u, from the data that I is from, with the log-determinant linearized as in
`training.widths`, and :math:`\sigma_g` its standard error, which is 0 if these are all data. It is a difference between
two places with weights held. Between them the log-likelihood has a curvature of many times I, that of held weights:
what this adds where the present u is not in their middle is corrected.

The 90 % interval of w is from :math:`\sqrt{u - 1.645\,e}`, or 0 where that is not real, to
:math:`\sqrt{u + 1.645\,e}`, cut at the largest possible width; one that begins at 0 is a bound. The error of w is the
length of the interval before the cut over 2 · 1.645, for a width far above its error :math:`e/2w`. A probability is
its own u: there the interval is w ± 1.645 e.

A width without an error bar has the reason in words instead (`Symmetry.no_error`). It has none where the interval
holds every width, and none where the weights are
far from their mode: a width that is the best for such weights may be far from the one that is the best for their mode,
and its interval is no wider for it. Far is where the outputs are farther from those at the mode than those of a sample
from the posterior are on average (`Evidence.mode_distance`).
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
from ..curvature.passes import CurvatureStatistics, curvature_pass
from ..distributed import own, own_part, place
from ..hypergrad.information import Information, Line, Sample, displaced, information_along, parameters_of
from ..hypergrad.running import RunningStatistics
from ..hypergrad.two_pass import Cotangents, curvature_cotangents
from ..models import Model
from ..noise import Stream, permutation
from ..records import Evidence, Symmetry
from .ascent import evaluated_curvature, hyper_model
from .hyper_state import HyperState
from .schedule import ERRORS, seed_for
from .widths import EvidenceChange, augmentation_of, objective_each, scaled_to_all

NORMAL_90 = 1.6448536269514722
TAIL = 4  # the last quarter of the hyper steps
PART, MOST_STEP = 0.1, 0.05  # of the differences: a part of the width, up to a bound
LEAST_WIDTH = 0.1  # u changes by at least its square: with less, the noise of the samples would show
MOST_MOVE = 0.5  # of a parameter, such as the logit of a probability that is nearly 0
CLEAR = 3.0  # standard errors of a gradient, from which it is more than the noise of its data
MOST_DISTANCE = 1.0  # of the outputs from those at the mode: that of a sample from the posterior
FAR = "the weights have not converged; train for more epochs"
# by unit, the width from which a larger one changes nothing, or leaves nothing to see: a full circle, every sample, a
# shift by the whole side, a factor of 20
LARGEST = {
    "radians": math.pi,
    "radians of hue": math.pi,
    "probability": 1.0,
    "half-widths": 2.0,
    "half-heights": 2.0,
    "half-lengths": 2.0,
    "log-scale": math.log(20),
    "log-factor": math.log(20),
}


def with_errors(
    symmetries: Sequence[Symmetry], state: HyperState, batches: Batches, config: FitConfig, evidence: Evidence | None
) -> list[Symmetry]:
    """The symmetries with standard error and interval of each width, or the reason why it has none.

    Arguments:
        symmetries: What was learned, in the order of the augmentation's names.
        state: The state that was kept.
        batches: All training data; this process reads its shard.
        config: The settings, filled in.
        evidence: The evaluated evidence of that state; None where it has none.
    """
    augment = augmentation_of(state.network)
    if augment is None or not symmetries:
        return list(symmetries)
    if (reason := _not_computed(state, config)) is not None:
        return [replace(symmetry, no_error=reason) for symmetry in symmetries]
    units = [symmetry.unit for symmetry in symmetries]
    lines, short = (width_lines(augment, state.model, units, most) for most in (math.inf, LEAST_WIDTH**2))
    reasons = [_reason(symmetry, line, evidence) for symmetry, line in zip(symmetries, lines, strict=True)]
    pairs = {
        k: (long, line)
        for k, (long, line) in enumerate(zip(lines, short, strict=True))
        if long is not None and line is not None and reasons[k] is None
    }
    known = dict(zip(pairs, _known(state, batches, config, list(pairs.values())), strict=True))
    noises = step_noise(state.learning.widths) or [0.0] * len(symmetries)
    return [
        with_error(symmetry, *known[k], noises[k]) if k in known else replace(symmetry, no_error=reasons[k])
        for k, symmetry in enumerate(symmetries)
    ]


def with_error(symmetry: Symmetry, information: Information, gradient: EvidenceChange, noise: float = 0.0) -> Symmetry:
    """The symmetry with its error bar, or the reason why it has none.

    Arguments:
        symmetry: The symmetry.
        information: The information on its u.
        gradient: The gradient of the evidence in u.
        noise: s, the standard deviation of the width over the last hyper steps.
    """
    if not all(map(math.isfinite, (information.total, noise, *gradient))):
        return replace(symmetry, no_error="its information is not finite")
    if information.total <= 0:
        held = "the weights make up for every change of it" if information.held > 0 else "the outputs do not change"
        return replace(symmetry, no_error=held)
    derivative = 2 * symmetry.width if _is_even(symmetry.unit) else 1.0  # of u in the width
    at_rest, way = 1 / information.total + (derivative * noise) ** 2, remaining_way(information, gradient)
    low, high = (
        _width(_amount(symmetry.width, symmetry.unit) + sign * NORMAL_90 * math.sqrt(at_rest + part**2), symmetry.unit)
        for sign, part in ((-1, min(way, 0.0)), (1, max(way, 0.0)))
    )
    largest = LARGEST.get(symmetry.unit, math.inf)
    if low <= 0 and high >= largest:
        return replace(symmetry, no_error="the data do not limit it")
    interval = [max(low, 0.0), min(high, largest)]
    return replace(symmetry, error=(high - low) / (2 * NORMAL_90), interval=interval)


def remaining_way(information: Information, gradient: EvidenceChange) -> float:
    """d, the signed way of u to the maximum of the evidence by a Newton step; 0 for a gradient within its noise.

    Arguments:
        information: The information on u, above 0.
        gradient: The gradient of the evidence in u.
    """
    if abs(gradient.value) <= CLEAR * gradient.error:
        return 0.0
    return math.copysign(math.sqrt(gradient.value**2 - gradient.error**2), gradient.value) / information.total


@torch.no_grad()
def evidence_gradients(
    model: Model,
    sample: Sample,
    cotangents: Cotangents,
    lines: Sequence[Line],
    information: Sequence[Information],
    *,
    seed: int = 0,
) -> list[EvidenceChange]:
    """The gradient of the evidence in the hyperparameter of each line, with its standard error.

    Arguments:
        model: The model; call `eval()` first if it has `BatchNorm` or `Dropout`.
        sample: The data.
        cotangents: Those of the log-determinant, which is linearized.
        lines: The lines, between whose ends the difference is taken under common noise.
        information: That on the hyperparameter of each line.
        seed: The seed of the augmentation's noise and of the probes.
    """
    found, chance = [], math.sqrt(1 - sample.num_read / sample.num_data)  # all data are no random choice
    for line, known in zip(lines, information, strict=True):
        with displaced(model, line.direction, line.high):
            after = objective_each(model, sample.batches, cotangents, seed)
        with displaced(model, line.direction, line.low):
            change = after - objective_each(model, sample.batches, cotangents, seed)
        total = scaled_to_all(change / line.length, sample.num_data)
        found.append(EvidenceChange(total.value + known.held * line.middle, chance * total.error))
    return found


def width_lines(
    augment: Augmentation, model: Model, units: Sequence[str], max_step: float = math.inf
) -> list[Line | None]:
    """For each width a line that changes it alone, by the shortest displacement of parameters.

    None for a width that no parameter changes to first order, such as one that is 0.

    Arguments:
        augment: The augmentation.
        model: The model that it is part of.
        units: The unit of each width.
        max_step: The largest change of u to either side.
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
    found: list[Line | None] = []
    for number, (column, row) in enumerate(zip(columns, jacobian, strict=True)):
        parts = column.split([parameter.numel() for parameter in parameters.values()])
        direction = {
            name: part.view_as(parameter).to(parameter)
            for (name, parameter), part in zip(parameters.items(), parts, strict=True)
        }
        width = widths[number].item()
        step = min(_step(width, units[number]), max_step)
        ends = [_width(_amount(width, units[number]) + sign * step, units[number]) - width for sign in (-1, 1)]
        found.append(_line(augment, model, direction, ends, (number, units[number])) if bool(row.any()) else None)
    return found


def _line(
    augment: Augmentation, model: Model, direction: dict[str, Tensor], ends: Sequence[float], which: tuple[int, str]
) -> Line | None:
    """The line of a width, by its number and unit, between these ends, or nearer ones where parameters would jump."""
    number, unit = which
    most = MOST_MOVE / max(float(part.abs().max()) for part in direction.values())
    low, high = max(ends[0], -most), min(ends[1], most)
    reached = []
    for end in (low, high):
        with displaced(model, direction, end):
            reached.append(_amount(augment.widths[number].item(), unit))
    if reached[1] <= reached[0]:
        return None
    middle = 0.5 * (reached[0] + reached[1]) - _amount(augment.widths[number].item(), unit)
    return Line(direction, low, high, reached[1] - reached[0], middle)


def _is_even(unit: str) -> bool:
    """Whether the evidence is even in a width of this unit, so that its square is what the data determine."""
    return unit != "probability"


def _amount(width: float, unit: str) -> float:
    return width**2 if _is_even(unit) else width


def _width(amount: float, unit: str) -> float:
    return math.sqrt(max(amount, 0.0)) if _is_even(unit) else amount


def _step(width: float, unit: str) -> float:
    """How far u moves to each side."""
    step = min(PART * width, MOST_STEP)
    return max(2 * width * step, LEAST_WIDTH**2) if _is_even(unit) else step


def step_noise(widths: Sequence[Sequence[float]]) -> list[float]:
    """The standard deviation of each width over the last quarter of its hyper steps; empty with fewer than two.

    Arguments:
        widths: The widths before the first and after each hyper step.
    """
    tail = widths[-max(len(widths) // TAIL, 2) :]
    return [stdev(trajectory) for trajectory in zip(*tail, strict=True)] if len(tail) > 1 else []


def _not_computed(state: HyperState, config: FitConfig) -> str | None:
    """Why no width of a run has an error bar; None where they are to be computed."""
    if config.hyper.estimator == "augerino":
        return "Augerino has no evidence"
    if not config.evaluation.num_error_data or not config.evaluation.num_evaluations:
        zero = "num_error_data" if not config.evaluation.num_error_data else "num_evaluations"
        return f"evaluation.{zero} is 0"
    return "not learned" if state.learning.begun is None else None


def _reason(symmetry: Symmetry, line: Line | None, evidence: Evidence | None) -> str | None:
    """Why a width has no error bar before anything is computed; None where that is not known."""
    if symmetry.state in ("fixed", "at its limit", "not learned yet"):
        return symmetry.state
    if line is None:
        return "no parameter changes it"
    distance = None if evidence is None else evidence.mode_distance
    return FAR if distance is not None and distance > MOST_DISTANCE else None


def _known(
    state: HyperState, batches: Batches, config: FitConfig, lines: Sequence[tuple[Line, Line]]
) -> Sequence[tuple[Information, EvidenceChange]]:
    """Information and gradient for each width, from its lines: a long one for the former, and a short one."""
    if not lines:
        return []
    long, short = zip(*lines, strict=True)
    sample, seed = _sample(batches, state.num_data, config), seed_for(config.seed, ERRORS)
    statistics, model = _curvature(state, sample, config, seed), hyper_model(state, config)
    information = information_along(state.model, sample, statistics, long, seed=seed)
    cotangents = curvature_cotangents(model, statistics, evaluated_curvature(config))
    gradients = evidence_gradients(model, sample, cotangents, short, information, seed=seed)
    return list(zip(information, gradients, strict=True))


def _sample(batches: Batches, num_data: int, config: FitConfig) -> Sample:
    """All data, or as many of them as the settings allow."""
    most = max(config.evaluation.num_error_data, place()[1])  # no process is without any
    if batches.read is None or most >= num_data:
        return Sample(own_part(batches), num_data, num_data)
    order = permutation(seed_for(config.seed, ERRORS), num_data, stream=Stream.SUBSET)
    return Sample(batches.at(own(order[:most])), most, num_data)


def _curvature(state: HyperState, sample: Sample, config: FitConfig, seed: int) -> CurvatureStatistics:
    """The running statistics where there are some: they only precondition; else those of the sample."""
    if state.running is not None:
        return state.running.scaled(sample.num_data)
    part = curvature_pass(state.model, sample.batches, evaluated_curvature(config), seed=seed)
    return RunningStatistics.of(part).scaled(sample.num_data)
