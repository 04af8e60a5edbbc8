"""Limits of widths that a user knows, kept by the parametrization of the widths."""

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import DataError, StructureError
from .affine import Correlated
from .composed import Composed
from .protocol import Augmentation
from .uniform import Limits, UniformWidths, raw_from_widths, widths_from_raw

ROUNDING = 1e-6  # of a width that was saved in another dtype
W = TypeVar("W", bound=UniformWidths)


def bounded(augment: Augmentation, **limits: Sequence[float | int]) -> Augmentation:
    r"""A copy of an augmentation whose widths stay inside of limits while they are learned.

    A width with the limits a and b is :math:`w = \min(\max(|r|, a), b)` of its parameter r, with the gradient of
    :math:`|r|`: no step of any optimizer leaves the limits, and a width that is held at one can leave it. Hyper steps
    of `fit` also set the parameter back to the limit. Learning starts at the present width. Records say "at its limit"
    of a width within 5 % of its range from b, or from a if that is above 0.

    Arguments:
        augment: The augmentation. Widths of affine transforms, colors, signals, points and volumes can be bounded;
            probabilities cannot.
        limits: By name the limits (a, b), 0 ≤ a < b, in the unit of the width; of an angle b is at most π.

    Example:
        >>> from covary.augment import Affine2d, bounded
        >>> augment = bounded(Affine2d(("rotation", "shift_x")), rotation=(0, 0.5))
        >>> augment.raw_widths.data.fill_(100.0).tolist()
        [100.0, 100.0]
        >>> augment.widths.tolist()
        [0.5, 100.0]
    """
    if unknown := limits.keys() - set(augment.names):
        raise StructureError(f"Expected limits for {', '.join(augment.names)}, got '{min(unknown)}'.")
    checked = {name: _checked(name, ends) for name, ends in limits.items()}
    return _bounded(augment, checked) if checked else deepcopy(augment)


def limits_of(augment: Augmentation) -> Limits:
    """The limits of an augmentation by name; empty where it has none."""
    if isinstance(augment, Composed):
        return {name: ends for part in augment.parts for name, ends in limits_of(part).items()}
    found = augment.base if isinstance(augment, Correlated) else augment
    return dict(found.limits) if isinstance(found, UniformWidths) else {}


def _bounded(augment: Any, limits: Limits) -> Augmentation:
    own = {name: ends for name, ends in limits.items() if name in augment.names}
    if not own:
        return deepcopy(augment)
    if isinstance(augment, Composed):
        return Composed(*[_bounded(part, own) for part in augment.parts])
    if isinstance(augment, Correlated):
        return Correlated(_at_limits(augment.base, augment.widths.detach(), own), augment.mix)
    if isinstance(augment, UniformWidths):
        return _at_limits(augment, augment.widths.detach(), own)
    raise StructureError(
        f"Expected limits for widths, got '{min(own)}' of {type(augment).__name__}, which has probabilities or "
        "generators. Leave an element out instead of bounding it."
    )


def free_widths(augment: Augmentation) -> Tensor:
    """The widths that an augmentation would have without its limits."""
    if isinstance(augment, Composed):
        return torch.cat([free_widths(part) for part in augment.parts])
    if isinstance(augment, Correlated):
        return widths_from_raw(torch.linalg.vector_norm(augment.raw_mix.tril(), dim=1), augment.base.angular)
    return (
        widths_from_raw(augment.raw_widths, augment.angular) if isinstance(augment, UniformWidths) else augment.widths
    )


@torch.no_grad()
def project_(augment: Augmentation) -> None:
    """Set parameters back, in place, whose widths are held at a limit."""
    for part in augment.parts if isinstance(augment, Composed) else [augment]:
        if isinstance(part, Composed):
            project_(part)
        elif isinstance(part, Correlated) and part.base.limits:
            free = torch.linalg.vector_norm(part.raw_mix.tril(), dim=1)
            part.raw_mix.mul_(_onto_limits(free, part.widths, part.base)[:, None])
        elif isinstance(part, UniformWidths) and part.limits:
            part.raw_widths.mul_(_onto_limits(part.raw_widths.abs(), part.widths, part))


def _onto_limits(raw: Tensor, widths: Tensor, augment: UniformWidths) -> Tensor:
    """Factors of raw parameters, 1 where a width is not held; a limit of 0 < a is reached from wherever r is not 0."""
    free = widths_from_raw(raw, augment.angular)
    held = (free != widths) & (raw > 0)
    reachable = torch.where(augment.angular, widths.clamp(max=math.pi * (1 - 1e-6)), widths)
    return torch.where(held, raw_from_widths(reachable, augment.angular) / raw, 1.0)


def _at_limits(augment: W, widths: Tensor, limits: Limits) -> W:
    """A copy with these widths and limits; those that it had before and that are not replaced stay."""
    made = deepcopy(augment)
    made.limits = augment.limits | limits
    for name, angular, width in zip(made.names, made.angular.tolist(), widths.tolist(), strict=True):
        low, high = made.limits.get(name, (0.0, math.inf))
        if name in limits and angular and high > math.pi:
            raise DataError(f"Expected limits of the angle '{name}' up to π, got {high:g}.")
        if not low - ROUNDING <= width <= high + ROUNDING:
            raise DataError(
                f"Expected the width of '{name}' from {low:g} to {high:g}, its limits, got {width:g}. Start inside of "
                "the limits."
            )
    made.raw_widths.data = raw_from_widths(widths, made.angular)
    return made


def _checked(name: str, ends: Any) -> tuple[float, float]:
    pair = isinstance(ends, tuple | list) and len(ends) == 2
    numbers = pair and all(isinstance(end, int | float) and math.isfinite(end) for end in ends)
    if not numbers or not 0 <= ends[0] < ends[1]:
        raise DataError(
            f"Expected limits (a, b) of '{name}' with 0 ≤ a < b, got {ends!r}. Pass for example {name}=(0, 0.5), and "
            "leave out a transform that should not be applied."
        )
    return float(ends[0]), float(ends[1])
