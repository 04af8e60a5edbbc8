"""The ranges of an augmentation, whatever its classes: widths and probabilities by name, in units of other libraries.

A width w is the half-length of a symmetric range: radians of a rotation, halves of a side of a shift, a log-scale or
log-factor of scales and colors. Other libraries have degrees, whole sides, and factors.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from ...errors import StructureError
from ...groups.square import DIHEDRAL_NAMES, product
from ..affine import Affine2d, Correlated
from ..color import ColorJitter
from ..composed import Composed
from ..finite import FiniteGroup, Mirror3d
from ..protocol import Augmentation

TURNS = ("identity", "quarter_turn", "half_turn", "three_quarter_turn")
_CORRELATED = 0.05  # correlations below which two coefficients count as independent
_APART = 0.02  # the total variation from which on drawn probabilities are said to differ from learned ones


@dataclass(frozen=True)
class Ranges:
    """Ranges of images' transforms."""

    widths: dict[str, float] = field(default_factory=dict)  # the widths of affine transforms and colors by name
    # the probabilities of symmetries of the square by name, the identity included; empty without flips
    elements: dict[str, float] = field(default_factory=dict)
    # the probabilities of mirror images along axes of volumes by name
    mirrors: dict[str, float] = field(default_factory=dict)
    padding: str = "zeros"  # the pixels outside of an image
    notes: tuple[str, ...] = ()  # what other libraries cannot express, in sentences

    def only(self, names: Collection[str]) -> "Ranges":
        """The ranges of these transforms alone; an element of a finite group that is left out has the probability 0."""
        widths, elements, mirrors = (
            {name: value for name, value in part.items() if name in names}
            for part in (self.widths, self.elements, self.mirrors)
        )
        elements = {"identity": 1 - sum(elements.values())} | elements if elements else {}
        return replace(self, widths=widths, elements=elements, mirrors=mirrors)


def ranges_of(augment: Augmentation) -> Ranges:
    """Ranges of a distribution; raise `StructureError` if no part of it transforms images or volumes."""
    widths: dict[str, float] = {}
    elements: dict[str, float] = {}
    mirrors: dict[str, float] = {}
    padding, notes = "zeros", []
    for part in _parts(augment):
        named = dict(zip(part.names, part.widths.tolist(), strict=True))
        if isinstance(part, Affine2d | Correlated | ColorJitter):
            widths |= named
            padding = part.padding if isinstance(part, Affine2d) else padding
        elif isinstance(part, FiniteGroup):
            elements = {"identity": 1 - sum(named.values())} | named
        elif isinstance(part, Mirror3d):
            mirrors = named
        else:
            notes.append(f"{', '.join(part.names)}: of {type(part).__name__}, which has no counterpart here.")
        if isinstance(part, Correlated):
            padding = part.base.padding
            notes += _correlations(part)
    if not (widths or elements or mirrors):
        raise StructureError(
            f"Expected transforms of images (Affine2d, ColorJitter, FiniteGroup) or mirrors of volumes, got "
            f"{', '.join(augment.names)} of {type(augment).__name__}. Save it with covary.augment.save instead."
        )
    return Ranges(widths, elements, mirrors, padding, tuple(notes))


def _parts(augment: Augmentation) -> Iterator[Augmentation]:
    if isinstance(augment, Composed):
        for part in augment.parts:
            yield from _parts(part)
    else:
        yield augment


def _correlations(augment: Correlated) -> list[str]:
    matrix, names = augment.correlation.tolist(), augment.names
    return [
        f"{names[i]} and {names[j]} have a correlation of {matrix[i][j]:.2f}; here they are drawn independently."
        for i in range(len(names))
        for j in range(i)
        if abs(matrix[i][j]) > _CORRELATED
    ]


@dataclass(frozen=True)
class Flips:
    """Independent flips and quarter turns that are nearest to a distribution over the symmetries of the square."""

    horizontal: float  # the probability of exchanging left and right
    vertical: float  # the probability of exchanging top and bottom
    turned: float  # the probability of turning by a number of quarters that is drawn evenly from 0 to 3
    notes: tuple[str, ...] = ()  # a sentence if these are not the learned distribution


def flips_of(elements: dict[str, float]) -> Flips:
    """Independent flips and turns of learned probabilities; those are said in a note if they are not independent."""
    if not elements:
        return Flips(0.0, 0.0, 0.0)
    learned = {name: elements.get(name, 0.0) for name in DIHEDRAL_NAMES}
    if all(learned[name] == 0 for name in ("quarter_turn", "three_quarter_turn", "transpose", "anti_transpose")):
        both = learned["half_turn"]
        flips = Flips(learned["flip_x"] + both, learned["flip_y"] + both, 0.0)
    else:
        mirrored = sum(learned[product(turn, "flip_x")] for turn in TURNS)
        unturned = learned["identity"] + learned["flip_x"]
        flips = Flips(mirrored, 0.0, min(4 / 3 * (1 - unturned), 1.0))
    return replace(flips, notes=differences(elements, drawn_elements(flips), "Flips and turns are drawn independently"))


def differences(learned: dict[str, float], drawn: dict[str, float], how: str) -> tuple[str, ...]:
    """A sentence with the learned probabilities if others are drawn."""
    apart = sum(abs(drawn.get(name, 0.0) - learned.get(name, 0.0)) for name in DIHEDRAL_NAMES) / 2
    said = ", ".join(f"{name} {learned[name]:.2f}" for name in DIHEDRAL_NAMES if learned.get(name, 0.0) >= 0.005)
    note = f"Learned probabilities: {said}. {how} here, {100 * apart:.0f} % apart."
    return (note,) if apart > _APART else ()


def drawn_elements(flips: Flips) -> dict[str, float]:
    """Probabilities of the symmetries of the square under independent flips, horizontal first, then a turn."""
    found = dict.fromkeys(DIHEDRAL_NAMES, 0.0)
    for mirrored, first in (("identity", 1 - flips.horizontal), ("flip_x", flips.horizontal)):
        for flipped, second in (("identity", 1 - flips.vertical), ("flip_y", flips.vertical)):
            for turn in TURNS:
                third = flips.turned / 4 + (1 - flips.turned if turn == "identity" else 0.0)
                found[product(turn, product(flipped, mirrored))] += first * second * third
    return found


def mirror_notes(ranges: Ranges) -> list[str]:
    """A sentence where there are mirrors of volumes, for a library without them."""
    return [f"{', '.join(ranges.mirrors)}: mirrors of volumes, which this target does not have."] * bool(ranges.mirrors)


def to_fraction(width: float) -> float:
    """Shift as a fraction of the whole side, at most 1."""
    return min(width / 2, 1.0)


def to_factors(width: float) -> tuple[float, float]:
    """Smallest and largest factor of a log-scale."""
    return math.exp(-width), math.exp(min(width, 30.0))


def from_factors(low: float, high: float) -> float:
    """Log-scale of a range of factors around 1: the mean of its two sides."""
    return (math.log(high) - math.log(low)) / 2


def to_gain(width: float) -> float:
    """Gain g of factors 1 ± g that are all inside of the learned range."""
    return 1 - math.exp(-width)


def to_turns(width: float) -> float:
    """Angle as a part of a full turn, at most a half."""
    return min(width / (2 * math.pi), 0.5)


def from_turns(turns: float) -> float:
    """Angle in radians of a part of a turn."""
    return 2 * math.pi * turns


def to_shear_degrees(width: float) -> float:
    r"""Angle φ of the shear parallel to x with the same stretch: :math:`\tan\varphi = 2 \sinh w`.

    The singular values of (1, t; 0, 1) are :math:`e^{\pm w}` with :math:`t = 2 \sinh w`. It also turns the image, by
    w to first order, which the shear of `Affine2d` does not.
    """
    return math.degrees(math.atan(2 * math.sinh(min(width, 30.0))))


def from_shear_degrees(degrees: float) -> float:
    """Width of the shear of `Affine2d` with the stretch of a shear parallel to x by an angle."""
    return math.asinh(math.tan(math.radians(degrees)) / 2)


def to_two_shears_degrees(width: float) -> float:
    """Angle of two independent shears, parallel to x and to y, that together never stretch by more than was learned."""
    return math.degrees(math.atan(to_gain(width)))


def two_shears(degrees: float) -> float:
    """Angle of two independent shears for the angle of one parallel to x."""
    return to_two_shears_degrees(from_shear_degrees(degrees))


def one_shear(degrees: float) -> float:
    """Angle of a shear parallel to x for that of two independent ones, below 45°."""
    return to_shear_degrees(-math.log(1 - min(math.tan(math.radians(degrees)), 0.99)))


def number(value: float) -> str:
    """Four digits that count, as Python and YAML write them."""
    return repr(float(f"{value:.4g}"))


def pair(values: tuple[float, float]) -> str:
    """Two numbers in parentheses."""
    return f"({number(values[0])}, {number(values[1])})"


def symmetric(value: float) -> str:
    """The range from −value to value, in parentheses."""
    return pair((-value, value))
