"""What was learned in the words of a person, and when an amount is too small to matter.

A width counts as negligible when it moves the points of an image by less than half a pixel on average, as slight when
by less than one; where no image is known, a pixel is that of an image of 28 × 28. A probability is negligible below
5 % and slight below 10 %; so is a width in a unit that is not listed here below 0.05 and 0.1.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import RunRecord, Symmetry

THRESHOLD = (
    "A width counts as negligible when it moves the points of an image by less than half a pixel on average, and as "
    "slight below one pixel (without images: of a side of 28). A probability is negligible below 5 % and slight "
    "below 10 %, any other amount below 0.05 and 0.1 of its unit."
)
SETTLED = (
    "A width is still moving if fewer than eight hyper steps were taken, if it drifted by more than 6 % of its way in "
    "the second half of them, or if it varied by more than 30 % in the last quarter; small changes do not count. It is "
    "at its limit if it is within 5 % of a limit that was set."
)
OFF = (
    "The share is the path's part of the layer's sum of γ/P, with γ the number of its P parameters that the data "
    "decide. A path is off when no tensor of it, bias or weight, has a share that counts. Errors say how far the "
    "layer's outputs are from moving along with its inputs, relative to the outputs: 0 is strictly equivariant."
)

# Path -> what a layer that consists of it is.
TYPES = {
    "conv": "convolutional",
    "fc": "fully connected",
    "f-fc": "fully connected (factored)",
    "s-conv": "convolutional (sparse)",
    "s-fc": "fully connected (sparse)",
    "gconv": "convolutional over the group",
}
# Role of parameters -> how they are trained.
ROLES = {
    "integrated": "trained on the log joint, integrated in the evidence: prior and curvature",
    "point": "trained on the log joint with a fixed weight decay, held fixed in the evidence",
    "hyperparameter": "trained on the evidence",
    "frozen": "not trained",
}
NOMINAL = (28, 28)
NEGLIGIBLE, SLIGHT = 0.5, 1.0  # pixels, below which a width is negligible or slight
GROUPS = ("weights", "hyper", "evaluation")  # of the settings of training
NAMES = {
    "shift_x": "horizontal shift",
    "shift_y": "vertical shift",
    "scale_x": "horizontal scale",
    "scale_y": "vertical scale",
    "flip_x": "left–right flip",
    "flip_y": "up–down flip",
    "rotation_x": "rotation about x",
    "rotation_y": "rotation about y",
    "rotation_z": "rotation about z",
}
# Unit of a shift -> the axis of an image that it is along, what that side is called, and the directions.
SIDES: dict[str, tuple[int | None, str, str]] = {
    "half-widths": (-1, "width", "left or right"),
    "half-heights": (-2, "height", "up or down"),
    "half-lengths": (None, "length", "either way"),
}
# Transform -> what a larger and a smaller one looks like, and where.
SCALES = {
    "scale_x": ("wider", "narrower", ""),
    "scale_y": ("taller", "shorter", ""),
    "shear": ("longer", "shorter", " along the diagonals"),
}
# Unit -> what a bar of it is measured in.
KINDS = {
    "radians": "± degrees",
    "half-widths": "± % of the side",
    "half-heights": "± % of the side",
    "log-scale": "up to … % larger",
    "probability": "% of the samples",
    "radians of hue": "± degrees",
    "half-lengths": "± % of the side",
    "log-factor": "up to … % larger",
}
# The mean, over the square [−1, 1]², of how far a point moves per unit of width to first order: its distance from the
# center for rotation and shear, (√2 + arsinh 1)/3, and from an axis for a scale.
FROM_CENTER, FROM_AXIS = (math.sqrt(2) + math.asinh(1)) / 3, 0.5


def meaning(name: str, width: float | int, unit: str, image_shape: Sequence[int] | None = None) -> str:
    """By how much, in words: "±87°", "up to 4.2 pixels left or right", "up to 7 % wider or narrower".

    Arguments:
        unit: "radians", "half-widths", "half-heights", "log-scale", "probability" or any other word.
        image_shape: The shape of the images, height and width last, where there are images.
    """
    if unit in ("radians", "radians of hue"):
        return f"±{_digits(math.degrees(width))}°{unit.removeprefix('radians')}"
    if unit in SIDES:
        axis, side, directions = SIDES[unit]
        if image_shape is None or axis is None:
            return f"up to {_digits(50 * width)} % of the {side} {directions}"
        return f"up to {_digits(width * image_shape[axis] / 2)} pixels {directions}"
    if unit in ("log-scale", "log-factor"):
        return _scaled(width, *SCALES.get(name, ("larger", "smaller", "")))
    if unit == "standard deviation":
        return f"a standard deviation of {width:.3g}"
    if unit == "probability":
        return f"{_digits(100 * width)} % of the samples"
    return f"±{width:.3g} {unit}".rstrip()


def _scaled(width: float | int, more: str, less: str, along: str) -> str:
    """A log-scale in words: per cent, and from twice the size on a factor."""
    larger, smaller = 100 * math.expm1(min(width, 30.0)), -100 * math.expm1(-width)
    if larger >= 99.5:
        return f"up to {_compact(_grown(width))} × {more} or {less}{along}"
    if _digits(larger) == _digits(smaller):
        return f"up to {_digits(larger)} % {more} or {less}{along}"
    return f"up to {_digits(larger)} % {more} or {_digits(smaller)} % {less}{along}"


def interval(symmetry: Symmetry, image_shape: Sequence[int] | None = None) -> str:
    """The 90 % interval of a width in the words of `meaning`, such as "81° to 90°"; empty where it has none.

    One that begins at 0 is a bound, "at most 4°".
    """
    if symmetry.interval is None:
        return ""
    unit, ends = symmetry.unit, symmetry.interval
    if unit in SIDES and image_shape is not None and (axis := SIDES[unit][0]) is not None:
        low, high = (_digits(end * image_shape[axis] / 2) for end in ends)
        return f"{low} to {high} pixels" if ends[0] > 0 else f"at most {high} pixels"
    low, high = (_digits(amount(end, unit)) if unit in KINDS else f"{end:.3g}" for end in ends)
    sign = "°" if unit.startswith("radians") else " %" if unit in KINDS else ""
    return f"{low}{sign} to {high}{sign}" if ends[0] > 0 else f"at most {high}{sign}"


def amount(width: float | int, unit: str) -> float:
    """A width in what `kind` names: degrees, per cent, or its own unit."""
    if unit in ("radians", "radians of hue"):
        return math.degrees(width)
    if unit in ("log-scale", "log-factor"):
        return 100 * (_grown(width) - 1)
    if unit in SIDES:
        return 50 * float(width)
    return 100 * float(width) if unit in KINDS else float(width)


def kind(unit: str) -> str:
    """What a bar of this unit is measured in; units with the same kind share an axis."""
    return KINDS.get(unit, unit or "no unit")


def plain_name(name: str) -> str:
    """The name of a transform as one would say it."""
    return NAMES.get(name, name.replace("_", " "))


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, those of a group with its name and a dot before theirs."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        grouped = isinstance(value, Mapping) and name in GROUPS
        found |= {f"{name}.{inner}": entry for inner, entry in value.items()} if grouped else {name: value}
    return found


def spelled(name: str, value: Any) -> Any:
    """The value of a setting, of one that names data as a path of one spelling."""
    return os.path.normpath(value) if name == "data" and isinstance(value, str) else value


def short(text: str, most: int) -> str:
    """A text of at most this many characters, without characters that cannot be shown."""
    shown = _printable(text)
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def ending(text: str, most: int) -> str:
    """The end of a text, at most this many characters: it distinguishes the parameters of a network."""
    shown = _printable(text)
    return shown if len(shown) <= most else "…" + shown[1 - most :].lstrip()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def strength(symmetry: Symmetry, image_shape: Sequence[int] | None = None) -> str:
    """How much a width is: "negligible", "slight" or "clear"."""
    moved = pixels(symmetry, image_shape)
    return "negligible" if moved < NEGLIGIBLE else "slight" if moved < SLIGHT else "clear"


def layer_names(run: RunRecord) -> list[str]:
    """The layers' names without what all of them begin with; where numbers remain, "layer 1" and so on, in order."""
    parts = [layer.name.split(".") for layer in run.layers]
    shared = 0
    while parts and all(len(name) > shared + 1 and name[shared] == parts[0][shared] for name in parts):
        shared += 1
    names = [".".join(name[shared:]) for name in parts]
    if all(name.isdecimal() for name in names):
        return [f"layer {number}" for number in range(1, len(names) + 1)]
    return [short(name, 18) for name in names]


def path_precision(precisions: dict[str, float]) -> str:
    """The precisions of a path's tensors, from the least to the most."""
    low, high = (_compact(end(precisions.values(), default=0.0)) for end in (min, max))
    return low if low == high else f"{low}–{high}"


def pixels(symmetry: Symmetry, image_shape: Sequence[int] | None) -> float:
    """How far the points of an image move on average, in pixels; a tenth of any other unit counts as one."""
    height, width = image_shape[-2:] if image_shape is not None else NOMINAL
    if symmetry.unit == "half-widths":
        return symmetry.width * width / 2
    if symmetry.unit == "half-heights":
        return symmetry.width * height / 2
    if symmetry.name == "scale_x":
        return symmetry.width * FROM_AXIS * width / 2
    if symmetry.name == "scale_y":
        return symmetry.width * FROM_AXIS * height / 2
    if symmetry.unit in ("radians", "log-scale"):
        return symmetry.width * FROM_CENTER * (height + width) / 4
    return symmetry.width / 0.1


def _digits(value: float) -> str:
    """Whole numbers from ten on, one decimal below."""
    return f"{value:.0f}" if abs(value) >= 9.95 or value == 0 else f"{value:.1f}"


def _compact(value: float) -> str:
    """Two digits that count, in as few letters as they take."""
    if 10 <= value < 1e5:
        return f"{float(f'{value:.2g}'):.0f}"
    return f"{value:.2g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def _grown(width: float | int) -> float:
    """The factor of a log-scale; one that is too large for a number is not drawn beyond e³⁰."""
    return math.exp(min(width, 30.0))
