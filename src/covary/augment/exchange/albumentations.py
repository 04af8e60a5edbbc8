"""Pipelines of albumentations, in the dictionaries that it writes and reads; it is not imported."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from ...errors import DataError
from ...groups.square import DIHEDRAL_NAMES
from ..color import COLOR_NAMES
from ..protocol import Augmentation
from .ranges import differences, two_shears
from .reading import (
    CHOICE,
    NO_RANGE,
    Range,
    Reading,
    as_range,
    assembled,
    drawn_shear,
    independent_flips,
    learned_ranges,
    quarter_turns,
    uniform_elements,
)

Spec = dict[str, Any]
CHOOSING = ("OneOf", "SomeOf", "RandomOrder", "OneOrOther", "SelectiveChannelTransform")
CONTAINERS = ("Compose", "Sequential")
DIHEDRAL = ("D4", "SquareSymmetry")  # one transform of two names
FLIPS = {"HorizontalFlip": "flip_x", "VerticalFlip": "flip_y", "Transpose": "transpose"}
_BESIDE = "another flip or turn is beside it; use it alone, or flips and RandomRotate90"
_ADDS = "it adds to the values; use ColorJitter to learn the range"


def from_albumentations(spec: Any) -> Augmentation:
    """The augmentation whose widths start at the ranges of a pipeline of albumentations.

    Learned are the ranges of `Affine`, `Rotate`, `ShiftScaleRotate` and `ColorJitter`, and the probabilities of
    `HorizontalFlip`, `VerticalFlip`, `Transpose`, `RandomRotate90` and `D4` (`SquareSymmetry`). A warning lists every
    transform if one of them is not learned, and says why; `to_albumentations` keeps those as they are.

    Arguments:
        spec: The dictionary that `albumentations.to_dict` makes, or the pipeline itself.

    Example:
        >>> from covary.augment import from_albumentations
        >>> rotate = {"__class_fullname__": "Rotate", "limit": [-20.0, 20.0], "crop_border": False, "p": 1.0}
        >>> from_albumentations({"transform": rotate})
        Affine2d(rotation=0.349, padding='zeros', sampler='sobol')
    """
    return assembled("albumentations", _readings([*_steps(_transform_of(_spec(spec)))]))


def to_albumentations(augment: Augmentation, spec: Any) -> Spec:
    """The dictionary of a pipeline of albumentations with the ranges of an augmentation that was learned from it.

    `albumentations.from_dict` makes the pipeline.

    Arguments:
        augment: The augmentation, such as `run.augment` after a fit with `from_albumentations(spec)`.
        spec: The dictionary or the pipeline; transforms that are not learned are copied.

    Example:
        >>> from covary.augment import Affine2d, to_albumentations
        >>> rotate = {"__class_fullname__": "Rotate", "limit": [-20.0, 20.0], "crop_border": False, "p": 0.5}
        >>> new = to_albumentations(Affine2d(("rotation",), initial_width=0.5), {"transform": rotate})["transform"]
        >>> new["limit"], new["p"]
        ([-28.64..., 28.64...], 1.0)
    """
    made = deepcopy(_spec(spec))
    steps = [*_steps(_transform_of(made))]
    readings = _readings(steps)
    ranges, elements = learned_ranges(augment, readings)
    shares = _shares(elements, {reading.title for reading in readings if reading.elements})
    for step, own, reading in zip(steps, ranges, readings, strict=True):
        if reading.elements.get("identity"):
            step["p"] = shares[reading.title]
        _set(step, own)
    return made


def _spec(spec: Any) -> Spec:
    found = spec.to_dict() if hasattr(spec, "to_dict") else spec
    if not isinstance(found, dict):
        raise DataError(
            f"Expected the dictionary of albumentations.to_dict, got {type(spec).__name__}. Put several transforms "
            "into an albumentations.Compose."
        )
    return found


def _transform_of(spec: Spec) -> Spec:
    found = spec.get("transform", spec)
    if not isinstance(found, dict) or "__class_fullname__" not in found:
        raise DataError("Expected a dictionary with '__class_fullname__', as albumentations.to_dict makes it.")
    return found


def _kind(step: Spec) -> str:
    return str(step["__class_fullname__"]).rpartition(".")[2]


def _steps(step: Spec) -> Iterator[Spec]:
    if _kind(step) in CONTAINERS and step.get("p", 1.0) == 1.0:
        for inner in step["transforms"]:
            yield from _steps(inner)
    else:
        yield step


def _readings(steps: Sequence[Spec]) -> list[Reading]:
    """What is read from each transform; Transpose and D4 are learned only if no other flip or turn is beside them."""
    found = [_reading(step) for step in steps]
    several = sum(bool(reading.elements) for reading in found) > 1
    alone = [several and reading.title in ("Transpose", *DIHEDRAL) for reading in found]
    return [replace(r, elements={}, fixed=_BESIDE) if is_one else r for r, is_one in zip(found, alone, strict=True)]


def _reading(step: Spec) -> Reading:
    kind, p = _kind(step), float(step.get("p", 1.0))
    if kind in CHOOSING:
        return Reading(kind, unsupported=CHOICE)
    if kind in CONTAINERS:
        return Reading(kind, unsupported=f"all or none of it is applied, with p={p:g}; give each transform its own p")
    if kind in FLIPS:
        return Reading(kind, elements={"identity": 1 - p, FLIPS[kind]: p} if p else {}, p=p)
    if kind == "RandomRotate90":
        return Reading(kind, elements=quarter_turns(dict.fromkeys(range(4), 0.25), p), p=p)
    if kind in DIHEDRAL:
        return Reading(kind, elements=uniform_elements(DIHEDRAL_NAMES, p), p=p)
    if kind in ("RandomBrightnessContrast", "HueSaturationValue"):
        return Reading(kind, fixed=_ADDS)
    if kind not in READERS:
        return Reading(kind, fixed=NO_RANGE)
    if step.get("fit_output") or step.get("crop_border"):
        return Reading(kind, unsupported="it changes the size of the content to fit the image")
    return Reading(kind, ranges=READERS[kind](step), p=p, fixed=_in_pixels(step))


def _in_pixels(step: Spec) -> str:
    pixels = step.get("translate_px") or {}
    moved = any(as_range(ends) != (0.0, 0.0) for ends in pixels.values())
    return "translate_px, use translate_percent to learn the shift" if moved else ""


def _affine(step: Spec) -> dict[str, Range]:
    found = {"rotation": as_range(step["rotate"])}
    shifts = step.get("translate_percent") or {}
    found |= {f"shift_{axis}": as_range(ends) for axis, ends in shifts.items()}
    found |= {f"scale_{axis}": as_range(ends) for axis, ends in step["scale"].items()}
    return found | drawn_shear(*(as_range(step["shear"][axis]) for axis in "xy"))


def _shift_scale_rotate(step: Spec) -> dict[str, Range]:
    low, high = as_range(step["scale_limit"])
    scale = (round(1 + low, 9), round(1 + high, 9))
    shifts = {f"shift_{axis}": as_range(step[f"shift_limit_{axis}"]) for axis in "xy"}
    return shifts | {"scale_x": scale, "scale_y": scale, "rotation": as_range(step["rotate_limit"])}


READERS: dict[str, Callable[[Spec], dict[str, Range]]] = {
    "Affine": _affine,
    "Rotate": lambda step: {"rotation": as_range(step["limit"])},
    "ShiftScaleRotate": _shift_scale_rotate,
    "ColorJitter": lambda step: {name: as_range(step[name]) for name in COLOR_NAMES},
}


def _shares(elements: dict[str, float], kinds: set[str]) -> dict[str, float]:
    """The probability of each kind of flip or turn in a pipeline, with a warning if they cannot be the learned ones."""
    moved = 1 - elements.get("identity", 1.0)
    if kinds == {"Transpose"}:
        return {"Transpose": moved}
    if kinds & {*DIHEDRAL}:
        share = min(8 / 7 * moved, 1.0)
        for note in differences(elements, uniform_elements(DIHEDRAL_NAMES, share), "All eight are drawn alike"):
            warnings.warn(note, stacklevel=3)
        return dict.fromkeys(DIHEDRAL, share)
    flips = independent_flips(elements)
    return {"HorizontalFlip": flips.horizontal, "VerticalFlip": flips.vertical, "RandomRotate90": flips.turned}


def _set(step: Spec, ranges: dict[str, Range]) -> None:
    """Set the fields of a transform; what is not learned is left as it is."""
    if not ranges:
        return
    kind, step["p"] = _kind(step), 1.0
    names = {"Affine": "rotate", "Rotate": "limit", "ShiftScaleRotate": "rotate_limit"}
    if "rotation" in ranges:
        step[names[kind]] = list(ranges["rotation"])
    for name in COLOR_NAMES:
        if name in ranges:
            step[name] = list(ranges[name])
    if kind == "ShiftScaleRotate":
        for axis in "xy":
            step[f"shift_limit_{axis}"] = list(ranges.get(f"shift_{axis}", (0.0, 0.0)))
        if "scale_x" in ranges:
            step["scale_limit"] = [end - 1 for end in _narrower(ranges)]
    if kind == "Affine":
        _set_affine(step, ranges)


def _narrower(ranges: dict[str, Range]) -> Range:
    """The narrower range of factors of both sides, where one factor is drawn for both."""
    return min((ranges[name] for name in ("scale_x", "scale_y") if name in ranges), key=lambda ends: ends[1])


def _set_affine(step: Spec, ranges: dict[str, Range]) -> None:
    if step.get("keep_ratio") and "scale_x" in ranges:
        ranges = ranges | dict.fromkeys(("scale_x", "scale_y"), _narrower(ranges))
    for axis in "xy":
        if f"shift_{axis}" in ranges:
            step["translate_percent"][axis] = list(ranges[f"shift_{axis}"])
        if f"scale_{axis}" in ranges:
            step["scale"][axis] = list(ranges[f"scale_{axis}"])
    drawn = [axis for axis in "xy" if as_range(step["shear"][axis]) != (0.0, 0.0)]
    if "shear" in ranges and len(drawn) == 1:
        step["shear"][drawn[0]] = list(ranges["shear"])
    elif "shear" in ranges:
        half = two_shears(ranges["shear"][1])
        step["shear"] = {axis: [-half, half] for axis in "xy"}
