r"""Has a width settled? A rule that reads the trajectory of the width alone.

Let :math:`a_0` be the amount of a width before the first hyper step and :math:`a_k` that after hyper step k, up to the
state that was kept, in pixels that the points of an image move on average (`words.pixels`). The tail is the second half
of the K changes; let d be the difference between the medians of its older and its newer amounts. In the tail the
gradient's noise shows as changes that cancel, a drift as changes that add up. A width is

- *not learned yet* if no hyper step was taken,
- *fixed* if hyper steps were taken and it never changed,
- *still moving* if fewer than 8 hyper steps were taken; or if it *drifts*: one of the medians is not negligible, and d
  is above 0.15 pixels, above a third of the sum of all changes in the tail (of which it is nearly half if all have one
  direction), and above 6 % of the range of the whole trajectory; or if it *wanders*: the newer amounts differ by more
  than a pixel and by more than 30 % of the last,
- *settled* otherwise.

A width with limits that hyper steps have moved to within 5 % of the range from a limit is *at its limit* instead.

6 %: with a learning rate that falls along half a cosine to zero, a width that never comes near its optimum has d = 8 %
of its way. Where the rule fails:

- A plateau before a rise, such as that of a network that is not trained far enough yet, looks settled. So does a local
  optimum of the evidence: settled does not mean right.
- So does a width whose learning rate is so small that the whole run moves it by less than two pixels.
- Where the evidence is flat, as for rotations that are nearly full, a width may wander for good, and is still moving.
- With few hyper steps, noise in one direction looks like a drift. The rule errs towards still moving.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Literal

from .run import Epoch
from .symmetry import Symmetry
from .words import NEGLIGIBLE, SLIGHT, pixels

State = Literal["not learned yet", "still moving", "settled", "fixed"]
LEAST_STEPS = 8
CHANGE = 0.15  # pixels
DIRECTED = 1 / 3  # of the sum of all changes in the tail
NEAR = 0.05  # of the range between limits: a width nearer to one of them is at its limit
SLOWING = 0.06  # of the range of the whole trajectory
STEADY = 0.3  # of the last amount


def width_state(amounts: Sequence[float], num_steps: int) -> State:
    """The state of a width, from its amounts in pixels before the first hyper step, if it is known, and after each."""
    if num_steps == 0:
        return "not learned yet"
    if len(amounts) > 1 and all(amount == amounts[0] for amount in amounts):
        return "fixed"
    if num_steps < LEAST_STEPS:
        return "still moving"
    tail = amounts[-1 - math.ceil((len(amounts) - 1) / 2) :]
    older, newer = tail[: len(tail) // 2], tail[len(tail) // 2 :]
    changes = sum(abs(after - before) for before, after in pairwise(tail))
    drift, way = abs(median(newer) - median(older)), max(amounts) - min(amounts)
    negligible = max(median(newer), median(older)) < NEGLIGIBLE
    if not negligible and drift > max(CHANGE, DIRECTED * changes, SLOWING * way):
        return "still moving"
    return "still moving" if max(newer) - min(newer) > max(SLIGHT, STEADY * amounts[-1]) else "settled"


def at_limit(symmetry: Symmetry) -> bool:
    """Whether a width is as large as its limits allow, or as small if they begin above 0."""
    if symmetry.limits is None:
        return False
    low, high = symmetry.limits
    near = NEAR * (high - low)
    return symmetry.width >= high - near or (low > 0 and symmetry.width <= low + near)


def trajectory(history: Sequence[Epoch]) -> tuple[list[Epoch], int]:
    """The epoch before the first hyper step, if there is one, and those with one; and the number of the latter.

    Epochs after the state that was kept are left out. An epoch has a hyper step if it has the evidence that the step
    ascended, or if a width changed in it, as in each epoch of a baseline that learns widths together with the weights.
    """
    kept = max((number for number, epoch in enumerate(history) if epoch.best), default=len(history) - 1)
    before = [None, *history]
    stepped = [
        epoch
        for earlier, epoch in zip(before, history[: kept + 1], strict=False)
        if epoch.evidence is not None or (earlier is not None and epoch.widths != earlier.widths)
    ]
    first = [epoch for epoch in history[:1] if not stepped or epoch is not stepped[0]]
    return [*first, *stepped], len(stepped)


def with_states(
    symmetries: Sequence[Symmetry], history: Sequence[Epoch], image_shape: Sequence[int] | None
) -> list[Symmetry]:
    """The symmetries with their states."""
    epochs, num_steps = trajectory(history)
    found = []
    for symmetry in symmetries:
        amounts = [pixels(replace(symmetry, width=epoch.widths[symmetry.name]), image_shape) for epoch in epochs]
        state = width_state(amounts, num_steps)
        found.append(replace(symmetry, state="at its limit" if num_steps and at_limit(symmetry) else state))
    return found
