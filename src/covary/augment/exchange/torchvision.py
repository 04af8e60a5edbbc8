"""Transforms of torchvision's v2: read, and changed in a copy, by the attributes that its documentation names."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from torch import nn

from ..color import COLOR_NAMES
from ..protocol import Augmentation
from .ranges import Flips, two_shears
from .reading import (
    CHOICE,
    FLIPS,
    NO_RANGE,
    Range,
    Reading,
    as_range,
    assembled,
    drawn_shear,
    flip_reading,
    flip_share,
    independent_flips,
    learned_ranges,
)

CHOOSING = ("RandomChoice", "RandomApply", "RandomOrder")


def from_torchvision(transforms: Any) -> Augmentation:
    """The augmentation whose widths start at the ranges of transforms of torchvision (v2).

    Learned are the ranges of `RandomAffine`, `RandomRotation` and `ColorJitter`, and the probabilities of flips. A
    warning lists every transform if one of them is not learned, and says why; `to_torchvision` keeps those as they are.
    Transforms are recognized by the names of their classes and read by their attributes `degrees`, `translate`,
    `scale`, `shear`, `brightness`, `contrast`, `saturation`, `hue` and `p`; torchvision is not imported.

    Arguments:
        transforms: One transform, a `Compose` or `torch.nn.Sequential`, or a list of these.

    Example:
        >>> from types import SimpleNamespace
        >>> from covary.augment import from_torchvision
        >>> class RandomRotation(SimpleNamespace):  # as torchvision's
        ...     pass
        >>> from_torchvision([RandomRotation(degrees=[-20.0, 20.0], expand=False, center=None)])
        Affine2d(rotation=0.349, padding='zeros', sampler='sobol')
    """
    return assembled("torchvision", [_reading(step) for step in _steps(transforms)])


def to_torchvision(augment: Augmentation, transforms: Any) -> Any:
    """A copy of transforms of torchvision with the ranges of an augmentation that was learned from them.

    `RandomAffine` has one factor for both sides: the narrower of the learned ranges.

    Arguments:
        augment: The augmentation, such as `run.augment` after a fit with `from_torchvision(transforms)`.
        transforms: The transforms; those that are not learned are copied.

    Example:
        >>> from types import SimpleNamespace
        >>> from covary.augment import Affine2d, to_torchvision
        >>> class RandomRotation(SimpleNamespace):  # as torchvision's
        ...     pass
        >>> rotation = RandomRotation(degrees=[-20.0, 20.0], expand=False, center=None)
        >>> to_torchvision(Affine2d(("rotation",), initial_width=0.5), rotation).degrees
        [-28.64..., 28.64...]
    """
    made = deepcopy(transforms)
    steps = [*_steps(made)]
    ranges, elements = learned_ranges(augment, [_reading(step) for step in steps])
    flips = independent_flips(elements)
    for step, own in zip(steps, ranges, strict=True):
        _set(step, own, flips)
    return made


def _steps(transforms: Any) -> Iterator[Any]:
    inner = getattr(transforms, "transforms", None) if type(transforms).__name__ == "Compose" else transforms
    if isinstance(inner, Sequence | nn.Sequential):
        for each in inner:
            yield from _steps(each)
    else:
        yield transforms


def _reading(step: Any) -> Reading:
    kind = type(step).__name__
    if kind in CHOOSING:
        return Reading(kind, unsupported=CHOICE)
    if kind in FLIPS:
        return flip_reading(kind, float(step.p))
    if kind == "ColorJitter":
        return Reading(
            kind, ranges={name: as_range(ends) for name in COLOR_NAMES if (ends := getattr(step, name)) is not None}
        )
    if kind not in ("RandomAffine", "RandomRotation"):
        return Reading(kind, fixed=NO_RANGE)
    if getattr(step, "center", None) is not None or getattr(step, "expand", False):
        return Reading(kind, unsupported="it turns about a center of its own, or enlarges the image")
    ranges = {"rotation": as_range(step.degrees)}
    return Reading(kind, ranges=ranges if kind == "RandomRotation" else ranges | _affine(step))


def _affine(step: Any) -> dict[str, Range]:
    found: dict[str, Range] = {}
    if step.translate is not None:
        found |= {f"shift_{axis}": (-float(most), float(most)) for axis, most in zip("xy", step.translate, strict=True)}
    if step.scale is not None:
        found |= {"scale_x": as_range(step.scale), "scale_y": as_range(step.scale)}
    if step.shear is not None:
        found |= drawn_shear(as_range(step.shear[:2]), as_range(step.shear[2:]) if len(step.shear) == 4 else None)
    return found


def _set(step: Any, ranges: dict[str, Range], flips: Flips) -> None:
    """Set the attributes of a transform; what is not learned is left as it is."""
    kind = type(step).__name__
    if kind in FLIPS and 0 < step.p < 1:
        step.p = flip_share(kind, flips)
    for name in COLOR_NAMES:
        if name in ranges:
            setattr(step, name, ranges[name])
    if "rotation" in ranges:
        step.degrees = list(ranges["rotation"])
    if "shift_x" in ranges or "shift_y" in ranges:
        step.translate = [ranges.get(f"shift_{axis}", (0.0, 0.0))[1] for axis in "xy"]
    if "scale_x" in ranges:
        step.scale = [*min(ranges["scale_x"], ranges["scale_y"], key=lambda ends: ends[1])]
    if "shear" in ranges:
        one_direction = len(step.shear) == 2 or as_range(step.shear[2:]) == (0.0, 0.0)
        half = two_shears(ranges["shear"][1])
        step.shear = [*ranges["shear"], 0.0, 0.0][: len(step.shear)] if one_direction else [-half, half, -half, half]
