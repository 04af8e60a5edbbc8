"""Pipelines of other libraries as augmentations, and learned ranges for them, in units that they share.

A range is a pair (low, high): of a rotation and a shear in degrees, of a shift as a part of the whole side, of scales
and colors as factors, of a hue as a part of a turn.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import StructureError
from ...groups.affine import AFFINE_NAMES
from ...groups.square import DIHEDRAL_NAMES, missing_products, product
from ..affine import Affine2d
from ..color import COLOR_NAMES, ColorJitter
from ..composed import Composed
from ..finite import FiniteGroup
from ..protocol import Augmentation
from .ranges import (
    Flips,
    flips_of,
    from_factors,
    from_shear_degrees,
    from_turns,
    one_shear,
    ranges_of,
    to_factors,
    to_fraction,
    to_shear_degrees,
    to_turns,
)

Range = tuple[float, float]
FACTORS = ("scale_x", "scale_y", "brightness", "contrast", "saturation")
NO_RANGE = "covary has no range for it"
FLIPS = {"RandomHorizontalFlip": "flip_x", "RandomVerticalFlip": "flip_y"}  # of kornia and torchvision
CHOICE = "one of several is drawn; list them one after another instead"
_LARGEST_ANGLE = 0.99 * math.pi  # a range of all angles is a width just below π


@dataclass(frozen=True)
class Reading:
    """What is read from one transform of a pipeline."""

    title: str  # the name of its class
    ranges: Mapping[str, Range] = field(default_factory=dict)  # its ranges by the names of covary
    # the probabilities of the symmetries of the square that it draws from
    elements: Mapping[str, float] = field(default_factory=dict)
    p: float = 1.0  # the probability with which it is applied
    fixed: str = ""  # why it, or a part of it, is kept as it is
    unsupported: str = ""  # why it cannot be read


def assembled(library: str, readings: Sequence[Reading]) -> Augmentation:
    """The augmentation whose widths start at the ranges of a pipeline; a warning lists what is not learned as it was.

    Flips come first, then affine transforms, then colors, whatever their order in the pipeline.
    """
    checked = [*_checked(readings)]
    widths = {name: width for widths, _ in checked for name, width in widths.items()}
    parts: list[Augmentation] = []
    elements = _combined([reading.elements for _, reading in checked if reading.elements])
    if elements:
        parts.append(FiniteGroup(tuple(elements), {n: p for n, p in elements.items() if n != "identity"}))
    for make, names in ((Affine2d, AFFINE_NAMES), (ColorJitter, COLOR_NAMES)):
        if own := {name: widths[name] for name in names if name in widths}:
            parts.append(make(tuple(own), initial_width=own))
    message = _message(library, checked)
    if not parts:
        raise StructureError(f"{message} Add a flip, an affine transform or a color jitter whose range can be learned.")
    if any(reading.fixed or reading.unsupported or _changed_p(own, reading) for own, reading in checked):
        warnings.warn(message, stacklevel=3)
    return parts[0] if len(parts) == 1 else Composed(*parts)


def learned_ranges(
    augment: Augmentation, readings: Sequence[Reading]
) -> tuple[list[dict[str, Range]], dict[str, float]]:
    """The ranges of each transform of a pipeline, and the probabilities of symmetries; notes are warnings.

    Raise `StructureError` if the augmentation lacks a transform that is learned from this pipeline.
    """
    learned, checked = ranges_of(augment), _checked(readings)
    expected = {name for widths, _ in checked for name in widths}  # each name is that of one transform only
    if missing := expected - learned.widths.keys():
        raise StructureError(
            f"Expected an augmentation that was made from this pipeline, got one without {', '.join(sorted(missing))}. "
            "Pass the pipeline that the augmentation was made from."
        )
    if bool(_combined([reading.elements for _, reading in checked if reading.elements])) != bool(learned.elements):
        raise StructureError("Expected flips in both the augmentation and the pipeline, or in neither.")
    for note in learned.notes:
        warnings.warn(note, stacklevel=3)
    ranges = [{name: _range(name, learned.widths[name]) for name in widths} for widths, _ in checked]
    return ranges, learned.elements


def independent_flips(elements: dict[str, float]) -> Flips:
    """Independent flips and turns of learned probabilities, with a warning if those are not independent."""
    flips = flips_of(elements)
    for note in flips.notes:
        warnings.warn(note, stacklevel=3)
    return flips


def flip_reading(title: str, p: float) -> Reading:
    """What is read from a flip of kornia or torchvision; nothing of one that is never applied."""
    return Reading(title, elements={"identity": 1 - p, FLIPS[title]: p} if p else {}, p=p)


def flip_share(title: str, flips: Flips) -> float:
    """The probability of a flip of kornia or torchvision."""
    return flips.horizontal if FLIPS[title] == "flip_x" else flips.vertical


def drawn_shear(x: Range | None, y: Range | None) -> dict[str, Range]:
    """The range of a shear parallel to x that stretches like those that are drawn, parallel to x, y, or both."""
    drawn = [ends for ends in (x, y) if ends is not None and ends != (0.0, 0.0)]
    if len(drawn) < 2:
        return {"shear": drawn[0]} if drawn else {}
    low, high = max(drawn, key=lambda ends: ends[1] - ends[0])
    return {"shear": (-one_shear(-low) if low < 0 else low, one_shear(high) if high > 0 else high)}


def as_range(ends: Any) -> Range:
    """The two ends of a range as plain numbers."""
    low, high = ends
    return float(low), float(high)


def quarter_turns(probabilities: Mapping[int, float], p: float) -> dict[str, float]:
    """Probabilities of turns by a number of quarters, applied with the probability p."""
    found = {name: p * probabilities.get(turns, 0.0) for turns, name in enumerate(_TURNS)}
    return found | {"identity": found["identity"] + 1 - p}


def uniform_elements(names: Sequence[str], p: float) -> dict[str, float]:
    """Probabilities of elements that are drawn evenly with the probability p."""
    found = dict.fromkeys(names, p / len(names))
    return found | {"identity": found.get("identity", 0.0) + 1 - p}


_TURNS = ("identity", "quarter_turn", "half_turn", "three_quarter_turn")


def _checked(readings: Sequence[Reading]) -> list[tuple[dict[str, float], Reading]]:
    """The widths of each transform, with what cannot be learned of it added to its reading."""
    seen: set[str] = set()
    found = []
    for reading in readings:
        widths, reasons = {}, [reading.fixed] if reading.fixed else []
        elements = reading.elements
        if elements and elements.get("identity", 0.0) <= 0:
            elements, reasons = {}, [*reasons, "always applied"]
        for name, ends in reading.ranges.items():
            width, reason = _width(name, ends)
            if width is not None and name in seen:
                width, reason = None, f"{name} is learned by another transform"
            if width is not None:
                widths[name] = width
            reasons += [reason] if reason else []
        seen |= widths.keys()
        found.append((widths, replace(reading, elements=elements, fixed="; ".join(reasons))))
    return found


def _width(name: str, ends: Range) -> tuple[float | None, str]:
    """The width at which the learning of a range starts, and why there is none, or why it is not the range."""
    neutral = 1.0 if name in FACTORS else 0.0
    low, high = ends
    if low == high == neutral:
        return None, ""
    if not low < neutral < high:
        return None, f"{name} from {low:g} to {high:g} is not around {neutral:g}"
    if name in FACTORS:
        low = max(low, 1 / high) if low <= 0 else low
        return from_factors(low, high), ""
    half = (high - low) / 2
    if name == "rotation":
        return min(math.radians(half), _LARGEST_ANGLE), ""
    if name == "shear":
        return from_shear_degrees(half), ""
    return (min(from_turns(half), _LARGEST_ANGLE) if name == "hue" else 2 * half), ""


def _range(name: str, width: float) -> Range:
    if name in FACTORS:
        return to_factors(width)
    if name == "rotation":
        half = math.degrees(width)
    elif name == "shear":
        half = to_shear_degrees(width)
    else:
        half = to_turns(width) if name == "hue" else to_fraction(width)
    return -half, half


def _combined(distributions: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The distribution of elements that are drawn one after another, over a group, each with some probability."""
    found = {"identity": 1.0}
    for each in distributions:
        drawn: dict[str, float] = {}
        for first, before in found.items():
            for second, share in each.items():
                name = product(second, first)
                drawn[name] = drawn.get(name, 0.0) + before * share
        found = {name: share for name, share in drawn.items() if share > 0}
    while missing := missing_products(tuple(found)):
        found |= dict.fromkeys(missing, 0.0)
    if len(found) < 2:
        return {}
    least = 1e-3  # an element that is never drawn would stay so
    total = sum(max(share, least) for share in found.values())
    return {name: max(found[name], least) / total for name in DIHEDRAL_NAMES if name in found}


def _message(library: str, checked: Sequence[tuple[Mapping[str, float], Reading]]) -> str:
    num_learned = sum(bool(widths or reading.elements) for widths, reading in checked)
    lines = [f"{num_learned} of {len(checked)} transforms of this {library} pipeline are learned."]
    for widths, reading in checked:
        states = []
        if widths or reading.elements:
            names = [*widths, *(name for name in reading.elements if name != "identity")]
            raised = f" (applied always, not with p={reading.p:g})" if _changed_p(widths, reading) else ""
            states.append(f"learned: {', '.join(names)}{raised}")
        states += [f"kept fixed: {reading.fixed}"] if reading.fixed else []
        states += [f"not supported: {reading.unsupported}"] if reading.unsupported else []
        lines.append(f"- {reading.title}: {'; '.join(states) or 'does nothing'}.")
    if any(reading.fixed or reading.unsupported for _, reading in checked):
        lines.append("Apply what is not learned to the data, or in weight steps only by covary.data.Augmented.")
    return "\n".join(lines)


def _changed_p(widths: Mapping[str, float], reading: Reading) -> bool:
    return bool(widths) and reading.p < 1
