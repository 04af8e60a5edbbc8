"""Amounts in words, and the line below which they are negligible."""

import dataclasses
import math

import numpy as np
import pytest

from covary.records import Symmetry
from covary.report import meaning, summary
from covary.report.words import amount, short, strength
from report.runs import SPARSE, bare_run, full_run, symmetry


@pytest.mark.parametrize(
    ("name", "width", "unit", "shape", "expected"),
    [
        ("rotation", math.radians(87), "radians", (1, 28, 28), "±87°"),
        ("rotation", math.pi, "radians", None, "±180°"),
        ("rotation", 0.05, "radians", None, "±2.9°"),
        ("rotation", 0, "radians", None, "±0°"),
        ("shift_x", 0.3, "half-widths", (1, 28, 28), "±4.2 pixels (30 % of half the width)"),
        ("shift_x", 0.3, "half-widths", (3, 100, 200), "±30 pixels (30 % of half the width)"),
        ("shift_y", 0.3, "half-heights", (3, 100, 200), "±15 pixels (30 % of half the height)"),
        ("shift_x", 0.3, "half-widths", None, "±30 % of half the width"),
        ("scale_x", math.log(2), "log-scale", None, "×0.5 to ×2"),
        ("shear", math.log(2), "log-scale", None, "×0.5 to ×2 along the diagonals"),
        ("flip_x", 0.421, "probability", None, "42 % of the copies"),
        ("hue", 0.25, "turns", None, "±0.25 turns"),
        ("hue", 0.25, "", None, "±0.25"),
    ],
)
def test_meaning(name, width, unit, shape, expected):
    assert meaning(name, width, unit, shape) == expected


def test_amount_is_what_a_bar_shows():
    assert amount(math.pi / 2, "radians") == pytest.approx(90)
    assert amount(math.log(1.5), "log-scale") == pytest.approx(50)
    assert amount(0.3, "half-widths") == pytest.approx(30)
    assert amount(0.3, "turns") == 0.3
    assert math.isfinite(amount(1e4, "log-scale"))


GENERATORS = {
    "shift_x": [[0, 0, 1], [0, 0, 0], [0, 0, 0]],
    "shift_y": [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
    "rotation": [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
    "scale_x": [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
    "scale_y": [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
    "shear": [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
}


EITHER_SIDE = [(0.48, "negligible"), (0.52, "slight"), (0.96, "slight"), (1.04, "clear")]


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize(("pixels", "expected"), EITHER_SIDE)
def test_strength_is_the_mean_motion_of_the_pixels(name, pixels, expected):
    """The oracle moves every pixel of an image of 64 × 64 along the generator, and measures."""
    centres = (np.arange(64) + 0.5) / 32 - 1
    points = np.stack([*(axis.ravel() for axis in np.meshgrid(centres, centres)), np.ones(64 * 64)])
    motion = np.array(GENERATORS[name]) @ points
    width = pixels / (32 * np.hypot(motion[0], motion[1]).mean())
    assert strength(dataclasses.replace(symmetry(name, 0.0), width=float(width)), (1, 64, 64)) == expected


def test_strength_without_pixels():
    found = [strength(Symmetry("flip_x", width, "probability", "")) for width in (0.049, 0.051, 0.101)]
    assert found == ["negligible", "slight", "clear"]


def learned(**widths: float) -> str:
    return summary(dataclasses.replace(full_run(), symmetries=[symmetry(name, w) for name, w in widths.items()]))


def test_summary():
    assert learned(shift_x=0.0, rotation=math.radians(87), shear=0.01) == (
        "The labels ignore rotation by up to ±87°; every other width is negligible."
    )
    assert learned(rotation=0.2, shear=0.0).endswith("; the one other width is negligible.")
    assert learned(rotation=0.2) == "The labels ignore rotation by up to ±11°."
    assert learned(rotation=0.06) == "The labels ignore slightly rotation by up to ±3.4°."
    assert learned(shift_x=0.3, rotation=1.0, scale_y=math.log(2)) == (
        "The labels ignore rotation by up to ±57°, vertical scale by ×0.5 to ×2 and horizontal shift by up to "
        "±4.2 pixels (30 % of half the width)."
    )
    assert learned(rotation=0.0, shear=0.01) == (
        "The labels ignore none of the transforms: every learned width is negligible."
    )
    assert summary(bare_run()) == "This run has no transforms whose width could be learned."


@pytest.mark.parametrize("name", SPARSE)
def test_summary_is_one_sentence(name):
    assert summary(SPARSE[name]()).endswith(".")


def test_short():
    assert short("rotation", 8) == "rotation"
    assert short("rotations", 8) == "rotatio…"
    assert short("a\x00\n\ud800b", 8) == "a���b"
