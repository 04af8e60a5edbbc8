r"""Widths of covary in the units of other libraries, and back.

A width w is the half-length of a symmetric range: radians of a rotation, halves of a side of a shift, a log-scale or
log-factor of scales and colors. Other libraries have degrees, whole sides, and factors.
"""

import math


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
