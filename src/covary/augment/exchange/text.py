"""Learned ranges as text to paste: code of kornia, torchvision and albumentations, settings of other programs."""

import math
from collections.abc import Callable, Collection, Sequence
from itertools import chain, combinations
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
    to_gain,
    to_shear_degrees,
    to_turns,
    to_two_shears_degrees,
)

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
Text = tuple[list[str], list[str]]  # lines, and notes
_GAIN = "Gains g are factors from 1 − g to 1 + g, all inside of the learned range."
AXES = {"mirror_z": 0, "mirror_y": 1, "mirror_x": 2}  # of volumes (D, H, W)
_TRAINER = '''from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


class nnUNetTrainerLearnedMirroring(nnUNetTrainer):
    """Mirrors along the axes whose mirror images the labels ignore."""

    def configure_rotation_dummyDA_mirroring_and_inital_patch_size(self):
        rotation, dummy_2d, patch_size, _ = super().configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        mirror_axes = {axes}
        self.inference_allowed_mirroring_axes = mirror_axes
        return rotation, dummy_2d, patch_size, mirror_axes'''
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


def _kornia(ranges: Ranges) -> Text:
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


def _torchvision(ranges: Ranges) -> Text:
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


def _albumentations(ranges: Ranges) -> Text:
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


def ultralytics_text(ranges: Ranges) -> Text:
    """Lines of a YAML file with Ultralytics' names, those only whose transforms were learned."""
    widths, flips = ranges.widths, flips_of(ranges.elements)
    lines, notes = [], list(flips.notes)
    if "rotation" in widths:
        lines.append(f"degrees: {number(math.degrees(widths['rotation']))}")
    for name, of_sides, unit in (("translate", "shift", to_fraction), ("scale", "scale", to_gain)):
        sides = [widths[f"{of_sides}_{axis}"] for axis in "xy" if f"{of_sides}_{axis}" in widths]
        if len(sides) == 2:
            lines.append(f"{name}: {number(unit(min(sides)))}")
        if len(sides) == 1 or (len(sides) == 2 and not math.isclose(*sides, rel_tol=0.05)):
            fate = "the smaller is used." if len(sides) == 2 else "the other was not learned, so it is left out."
            learned = ", ".join(f"{n} {w:.3g}" for n, w in widths.items() if n.startswith(of_sides))
            notes.append(f"{name}: one number for both sides, learned {learned}; {fate}")
    if "shear" in widths:
        lines.append(f"shear: {number(to_two_shears_degrees(widths['shear']))}")
        notes.append("shear: two independent shears that never stretch by more than the learned one, and turn too.")
    if ranges.elements:
        lines += [f"fliplr: {number(flips.horizontal)}", f"flipud: {number(flips.vertical)}"]
        notes += ["Quarter turns cannot be expressed."] if flips.turned else []
    lines += [f"hsv_h: {number(to_turns(widths['hue']))}"] if "hue" in widths else []
    gains = {"hsv_s": "saturation", "hsv_v": "brightness"}
    lines += [f"{key}: {number(to_gain(widths[name]))}" for key, name in gains.items() if name in widths]
    notes += [_GAIN] if any(line.startswith(("scale", "hsv_s", "hsv_v")) for line in lines) else []
    notes += ["contrast cannot be expressed."] if "contrast" in widths else []
    every = ("degrees", "translate", "scale", "shear", "fliplr", "flipud", "hsv_h", "hsv_s", "hsv_v")
    left = [key for key in every if not any(line.startswith(f"{key}:") for line in lines)]
    notes += [f"Not learned, so your settings stay: {', '.join(left)}."] if left else []
    return lines, [*notes, *mirror_notes(ranges)]


def nnunet_text(ranges: Ranges) -> Text:
    """A trainer class of nnU-Net with mirror axes: those of which each combination is at least half as probable as all.

    nnU-Net mirrors along each of its axes in half of the samples, independently. Axes of a patch are (D, H, W) of a
    volume and (H, W) of an image.
    """
    other = ", ".join(ranges.widths)
    notes = [f"{other}: nnU-Net sets these ranges in its own code; not changed here."] if other else []
    asked = {name for names in (ranges.mirrors, ranges.elements) for name in names}
    if not asked & {*AXES, "flip_x", "flip_y"}:
        missing = (
            "No mirror was learned, so your trainer stays: add FiniteGroup('flips') or Mirror3d to the augmentation."
        )
        return [], [missing, *notes]
    every = AXES if ranges.mirrors else {"flip_y": 0, "flip_x": 1}
    left = [name for name in every if name not in asked]
    notes += [f"{', '.join(left)}: not learned, so not mirrored here."] if left else []
    notes.append("An axis is mirrored in half of the samples: listed are those for which covary learned about as much.")
    axes = _mirror_axes(ranges)
    return _TRAINER.replace("{axes}", repr(axes) if axes else "None").splitlines(), notes


def _mirror_axes(ranges: Ranges) -> tuple[int, ...]:
    """The largest set of axes of which every combination of mirrors has at least half of its even share."""
    if ranges.mirrors:
        # axes are independent there; an even share is one half each
        return tuple(sorted(AXES[name] for name, share in ranges.mirrors.items() if share >= 0.25))
    names = {(): "identity", (0,): "flip_y", (1,): "flip_x", (0, 1): "half_turn"}
    total = sum(ranges.elements.get(name, 0.0) for name in names.values())
    for axes in ((0, 1), (1,), (0,)):
        combined = chain.from_iterable(combinations(axes, size) for size in range(1, len(axes) + 1))
        shares = [ranges.elements.get(names[entry], 0.0) for entry in combined]
        if total > 0 and min(shares) >= total / 2 ** len(axes) / 2:
            return axes
    return ()


def timm_text(ranges: Ranges) -> Text:
    """Arguments of timm's training script."""
    widths, flips, notes = ranges.widths, flips_of(ranges.elements), []
    lines = [f"--hflip {number(flips.horizontal)} --vflip {number(flips.vertical)}"] if ranges.elements else []
    notes += [*flips.notes, *(["Quarter turns cannot be expressed."] if flips.turned else [])]
    sides = [widths[name] for name in ("scale_x", "scale_y", "shift_x", "shift_y") if name in widths]
    if len(sides) == 4:
        # a crop of a part f of each side enlarges by 1/f, and shifts by up to 1/f − 1 halves of a side
        part = max(math.exp(-min(sides[:2])), 1 / (1 + min(sides[2:])))
        lines.append(f"--scale {number(part**2)} 1.0 --ratio 1.0 1.0")
        notes.append("--scale: the crop enlarges and shifts by no more than was learned; it never shrinks.")
    elif sides:
        notes.append("Scales and shifts are one crop in timm; they are expressed if all four of them were learned.")
    colors = [widths[name] for name in ("brightness", "contrast", "saturation") if name in widths]
    if len(colors) == 3:
        lines.append(f"--color-jitter {number(to_gain(min(colors)))}")
        notes.append(f"--color-jitter: one gain for brightness, contrast and saturation, the smallest. {_GAIN}")
    elif colors:
        notes.append("--color-jitter: has brightness, contrast and saturation at once; not all were learned.")
    absent = [name for name in ("rotation", "shear", "hue") if name in widths]
    notes += [f"{', '.join(absent)}: cannot be expressed but by an AutoAugment policy."] if absent else []
    return [" ".join(lines) or "# nothing that timm has an argument for"], [*notes, *mirror_notes(ranges)]


TEXTS: dict[str, Callable[[Ranges], Text]] = {
    "kornia": _kornia,
    "torchvision": _torchvision,
    "albumentations": _albumentations,
    "ultralytics": ultralytics_text,
    "nnunet": nnunet_text,
    "timm": timm_text,
}
