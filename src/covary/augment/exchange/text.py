"""Learned ranges as text to paste: code of kornia, torchvision and albumentations, settings of other programs."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from ..._text import require_choice
from ..affine import KINDS as AFFINE_KINDS
from ..color import KINDS as COLOR_KINDS
from ..protocol import Augmentation
from .ranges import (
    Flips,
    Ranges,
    flips_of,
    mirror_notes,
    number,
    pair,
    ranges_of,
    symmetric,
    to_factors,
    to_fraction,
    to_shear_degrees,
    to_turns,
)
from .settings import nnunet_text, timm_text, ultralytics_text

TextTarget = Literal["kornia", "torchvision", "albumentations", "ultralytics", "nnunet", "timm"]
UNITS = {name: kind.unit for name, kind in (AFFINE_KINDS | COLOR_KINDS).items()}
_SHEAR = (
    "shear: covary's is along the diagonals. This one is parallel to x with the same stretch, and turns the image too."
)
_TOGETHER = (
    "covary applies shift, rotation, scale and shear as one exponential, this library one after another: the same to "
    "first order."
)
_FACTORS = "Factors are drawn evenly between their ends, not their logarithms."
_COLORS = "Colors are clipped to their range and changed in random order; covary neither clips nor reorders."
_HUE = "hue: shifted in HSV; covary turns colors about the gray axis of RGB, equal for thirds of a turn only."
_PIXELS = "translate_percent: albumentations shifts by whole pixels."
_ROUNDED = "times: drawn evenly and rounded, so that −1, 0, 1 and 2 quarter turns are equally probable."
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}  # of OpenCV: constant, replicate, reflect


def to_text(augment: Augmentation, target: TextTarget | str, *, names: Collection[str] | None = None) -> str:
    """Text that sets another library to the ranges of an augmentation, with a comment on what it cannot express.

    Where a target has one number for several widths, it is the smallest: no image is transformed by more than was
    learned. Transforms that the augmentation does not have are left as they are in the target.

    Arguments:
        augment: The augmentation, such as `run.augment`.
        target: "kornia", "torchvision" (v2) or "albumentations" for Python code, "ultralytics" for YAML, "nnunet" for a
            trainer with mirror axes, "timm" for arguments of its training script.
        names: The transforms to write; all by default.

    Example:
        >>> from covary.augment import Affine2d, to_text
        >>> print(to_text(Affine2d(("rotation",), initial_width=0.5), "kornia"))
        # Ranges learned by covary: rotation 0.5 radians.
        import kornia.augmentation as K
        <BLANKLINE>
        pipeline = K.AugmentationSequential(
            K.RandomAffine(degrees=28.65, padding_mode="zeros", p=1.0),
        )
        <BLANKLINE>
    """
    require_choice("a target", target, TEXTS)
    ranges = ranges_of(augment)
    if names is not None:
        ranges = ranges.only(names)
    lines, notes = TEXTS[target](ranges)
    said = [f"Ranges learned by covary: {_summary(ranges)}.", *ranges.notes, *notes]
    return "\n".join([*(f"# {note}" for note in said), *lines]) + "\n"


def _summary(ranges: Ranges) -> str:
    widths = [f"{name} {width:.4g} {UNITS[name]}" for name, width in ranges.widths.items()]
    shares = {name: p for name, p in (ranges.elements | ranges.mirrors).items() if name != "identity"}
    return ", ".join([*widths, *(f"{name} {100 * p:.3g} %" for name, p in shares.items())])


def _kornia(ranges: Ranges) -> tuple[list[str], list[str]]:
    flips, calls = flips_of(ranges.elements), []
    calls += _flip_calls(flips, "RandomHorizontalFlip", "RandomVerticalFlip")
    calls += [f"RandomRotation90(times=(-1.5, 2.5), p={number(flips.turned)})"] if flips.turned else []
    arguments = _kornia_affine(ranges.widths)
    if arguments:
        calls.append(f'RandomAffine({", ".join(arguments)}, padding_mode="{ranges.padding}", p=1.0)')
    if colors := _color_arguments(ranges.widths):
        calls.append(f"ColorJitter({', '.join(colors)}, p=1.0)")
    lines = ["import kornia.augmentation as K", "", *_listed("pipeline = K.AugmentationSequential(", calls, "K", ")")]
    return lines, [*flips.notes, *[_ROUNDED] * bool(flips.turned), *_notes(ranges.widths), *mirror_notes(ranges)]


def _kornia_affine(widths: dict[str, float]) -> list[str]:
    found = []
    if _has(widths, "rotation", "shift_x", "shift_y", "scale_x", "scale_y", "shear"):
        found.append(f"degrees={number(_degrees(widths))}")
    if _has(widths, "shift_x", "shift_y"):
        found.append(f"translate={pair(_shifts(widths))}")
    if _has(widths, "scale_x", "scale_y"):
        ends = [*to_factors(widths.get("scale_x", 0.0)), *to_factors(widths.get("scale_y", 0.0))]
        found.append(f"scale=({', '.join(map(number, ends))})")
    if _has(widths, "shear"):
        found.append(f"shear={number(to_shear_degrees(widths['shear']))}")
    return found


def _torchvision(ranges: Ranges) -> tuple[list[str], list[str]]:
    flips, widths, calls, notes = flips_of(ranges.elements), ranges.widths, [], []
    calls += _flip_calls(flips, "RandomHorizontalFlip", "RandomVerticalFlip")
    if flips.turned:
        shares = [1 - 3 * flips.turned / 4, *[flips.turned / 4] * 3]
        turns = ", ".join(f"v2.RandomRotation(({angle}, {angle}))" for angle in (0, 90, 180, 270))
        calls.append(f"RandomChoice([{turns}], p=[{', '.join(map(number, shares))}])")
    arguments = []
    if _has(widths, "rotation", "shift_x", "shift_y", "scale_x", "scale_y", "shear"):
        arguments.append(f"degrees={number(_degrees(widths))}")
    if _has(widths, "shift_x", "shift_y"):
        arguments.append(f"translate={pair(_shifts(widths))}")
    if _has(widths, "scale_x", "scale_y"):
        both = min(widths.get("scale_x", 0.0), widths.get("scale_y", 0.0))
        arguments += [f"scale={pair(to_factors(both))}"] if both else []
        notes += _one_scale(widths)
    if _has(widths, "shear"):
        arguments.append(f"shear={number(to_shear_degrees(widths['shear']))}")
    if arguments:
        calls.append(f"RandomAffine({', '.join(arguments)}, interpolation=v2.InterpolationMode.BILINEAR)")
        notes += [f"Outside of an image: zeros, not {ranges.padding}."] if ranges.padding != "zeros" else []
    if colors := _color_arguments(widths):
        calls.append(f"ColorJitter({', '.join(colors)})")
    lines = ["from torchvision.transforms import v2", "", *_listed("pipeline = v2.Compose([", calls, "v2", "])")]
    return lines, [*flips.notes, *notes, *_notes(widths), *mirror_notes(ranges)]


def _albumentations(ranges: Ranges) -> tuple[list[str], list[str]]:
    flips, widths, calls = flips_of(ranges.elements), ranges.widths, []
    calls += _flip_calls(flips, "HorizontalFlip", "VerticalFlip")
    calls += [f"RandomRotate90(p={number(flips.turned)})"] if flips.turned else []
    arguments = []
    if _has(widths, "rotation"):
        arguments.append(f"rotate={symmetric(_degrees(widths))}")
    if _has(widths, "shift_x", "shift_y"):
        x, y = _shifts(widths)
        arguments.append(f'translate_percent={{"x": {symmetric(x)}, "y": {symmetric(y)}}}')
    if _has(widths, "scale_x", "scale_y"):
        ends = [pair(to_factors(widths.get(name, 0.0))) for name in ("scale_x", "scale_y")]
        arguments.append(f'scale={{"x": {ends[0]}, "y": {ends[1]}}}')
    if _has(widths, "shear"):
        angle = symmetric(to_shear_degrees(widths["shear"]))
        arguments.append(f'shear={{"x": {angle}, "y": (0.0, 0.0)}}')
    if arguments:
        border = _BORDERS[ranges.padding]
        calls.append(f"Affine({', '.join(arguments)}, interpolation=1, border_mode={border}, p=1.0)")
    if colors := _color_arguments(widths):
        calls.append(f"ColorJitter({', '.join(_all_colors(colors))}, p=1.0)")
    lines = ["import albumentations as A", "", *_listed("pipeline = A.Compose([", calls, "A", "])")]
    shifted = [_PIXELS] if _has(widths, "shift_x", "shift_y") else []
    return lines, [*flips.notes, *shifted, *_notes(widths), *mirror_notes(ranges)]


def _flip_calls(flips: Flips, horizontal: str, vertical: str) -> list[str]:
    named = {horizontal: flips.horizontal, vertical: flips.vertical}
    return [f"{name}(p={number(share)})" for name, share in named.items() if share > 0]


def _color_arguments(widths: dict[str, float]) -> list[str]:
    found = [
        f"{name}={pair(to_factors(widths[name]))}"
        for name in ("brightness", "contrast", "saturation")
        if name in widths
    ]
    return [*found, f"hue={symmetric(to_turns(widths['hue']))}"] if "hue" in widths else found


def _all_colors(arguments: Sequence[str]) -> list[str]:
    """Arguments with the neutral value of each that is missing: albumentations' own defaults change colors."""
    given = {argument.partition("=")[0] for argument in arguments}
    neutral = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}
    return [*arguments, *(f"{name}={pair(value)}" for name, value in neutral.items() if name not in given)]


def _notes(widths: dict[str, float]) -> list[str]:
    affine = sum(name in widths for name in AFFINE_KINDS)
    factors = _has(widths, "scale_x", "scale_y", "brightness", "contrast", "saturation")
    colors = any(name in widths for name in COLOR_KINDS)
    said = {
        _TOGETHER: affine > 1,
        _SHEAR: "shear" in widths,
        _FACTORS: factors,
        _COLORS: colors,
        _HUE: "hue" in widths,
    }
    return [note for note, holds in said.items() if holds]


def _one_scale(widths: dict[str, float]) -> list[str]:
    sides = [to_factors(widths.get(name, 0.0)) for name in ("scale_x", "scale_y")]
    learned = ", ".join(f"{side} {pair(ends)}" for side, ends in zip(("x", "y"), sides, strict=True))
    return [f"scale: one factor for both sides, the narrower of those learned ({learned})."]


def _has(widths: dict[str, float], *names: str) -> bool:
    return any(name in widths for name in names)


def _degrees(widths: dict[str, float]) -> float:
    return math.degrees(widths.get("rotation", 0.0))


def _shifts(widths: dict[str, float]) -> tuple[float, float]:
    return to_fraction(widths.get("shift_x", 0.0)), to_fraction(widths.get("shift_y", 0.0))


def _listed(opening: str, calls: Sequence[str], prefix: str, closing: str) -> list[str]:
    return [opening, *(f"    {prefix}.{call}," for call in calls), closing]


TEXTS: dict[str, Callable[[Ranges], tuple[list[str], list[str]]]] = {
    "kornia": _kornia,
    "torchvision": _torchvision,
    "albumentations": _albumentations,
    "ultralytics": ultralytics_text,
    "nnunet": nnunet_text,
    "timm": timm_text,
}
