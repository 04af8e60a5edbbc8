"""Learned ranges as settings of training programs: Ultralytics, nnU-Net and timm."""

import math
from itertools import chain, combinations

from .ranges import Ranges, flips_of, mirror_notes, number, to_fraction, to_gain, to_turns, to_two_shears_degrees

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
