"""Amounts in words, and the line below which they are negligible."""

import dataclasses
import math

import numpy as np
import pytest

from covary.records import Symmetry
from covary.records.words import (
    amount,
    ending,
    interval,
    layer_names,
    meaning,
    path_precision,
    short,
    strength,
)
from report.runs import full_run, layers_run, symmetry


@pytest.mark.parametrize(
    ("name", "width", "unit", "shape", "expected"),
    [
        ("rotation", math.radians(87), "radians", (1, 28, 28), "±87°"),
        ("rotation", math.pi, "radians", None, "±180°"),
        ("rotation", 0.05, "radians", None, "±2.9°"),
        ("rotation", 0, "radians", None, "±0°"),
        ("shift_x", 0.3, "half-widths", (1, 28, 28), "up to 4.2 pixels left or right"),
        ("shift_x", 0.3, "half-widths", (3, 100, 200), "up to 30 pixels left or right"),
        ("shift_y", 0.3, "half-heights", (3, 100, 200), "up to 15 pixels up or down"),
        ("shift_x", 0.3, "half-widths", None, "up to 15 % of the width left or right"),
        ("shift", 0.3, "half-lengths", (1, 64), "up to 15 % of the length either way"),
        ("scale_x", 0.0, "log-scale", None, "up to 0 % wider or narrower"),
        ("scale_x", 0.01, "log-scale", None, "up to 1.0 % wider or narrower"),
        ("scale_x", math.log(1.07), "log-scale", None, "up to 7.0 % wider or 6.5 % narrower"),
        ("scale_y", math.log(1.5), "log-scale", None, "up to 50 % taller or 33 % shorter"),
        ("scale_x", math.log(2), "log-scale", None, "up to 2 × wider or narrower"),
        ("scale", math.log(12), "log-scale", None, "up to 12 × larger or smaller"),
        ("contrast", math.log(1.25), "log-factor", None, "up to 25 % larger or 20 % smaller"),
        ("shear", math.log(2), "log-scale", None, "up to 2 × longer or shorter along the diagonals"),
        ("flip_x", 0.421, "probability", None, "42 % of the samples"),
        ("hue", 0.25, "turns", None, "±0.25 turns"),
        ("hue", 0.25, "", None, "±0.25"),
    ],
)
def test_meaning(name, width, unit, shape, expected):
    assert meaning(name, width, unit, shape) == expected


@pytest.mark.parametrize(
    ("name", "unit", "ends", "shape", "expected"),
    [
        ("rotation", "radians", [math.radians(80.6), math.radians(94)], None, "81° to 94°"),
        ("shift_x", "half-widths", [0.0, 0.3], (1, 28, 28), "at most 4.2 pixels"),
        ("shear", "log-scale", [0.0, math.log(1.04)], None, "at most 4.0 %"),
        ("shift_y", "half-heights", [0.1, 0.3], None, "5.0 % to 15 %"),
        ("scale_x", "log-scale", [0.01, math.log(1.5)], (1, 28, 28), "1.0 % to 50 %"),
        ("flip_x", "probability", [0.38, 0.5], None, "38 % to 50 %"),
        ("wobble", "turns", [0.1, 0.25], None, "0.1 to 0.25"),
        ("rotation", "radians", None, None, ""),
    ],
)
def test_interval(name, unit, ends, shape, expected):
    assert interval(Symmetry(name, 0.2, unit, "", error=0.1, interval=ends), shape) == expected


def test_amount_is_what_a_bar_shows():
    assert amount(math.pi / 2, "radians") == pytest.approx(90)
    assert amount(math.log(1.5), "log-scale") == pytest.approx(50)
    assert amount(0.3, "half-widths") == pytest.approx(15)
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
    centers = (np.arange(64) + 0.5) / 32 - 1
    points = np.stack([*(axis.ravel() for axis in np.meshgrid(centers, centers)), np.ones(64 * 64)])
    motion = np.array(GENERATORS[name]) @ points
    width = pixels / (32 * np.hypot(motion[0], motion[1]).mean())
    assert strength(dataclasses.replace(symmetry(name, 0.0), width=float(width)), (1, 64, 64)) == expected


def test_strength_without_pixels():
    found = [strength(Symmetry("flip_x", width, "probability", "")) for width in (0.049, 0.051, 0.101)]
    assert found == ["negligible", "slight", "clear"]


def test_layer_names_leave_out_what_all_share():
    def named(*names: str) -> list[str]:
        layers = [dataclasses.replace(full_run().layers[0], name=name) for name in names]
        return layer_names(dataclasses.replace(full_run(), layers=layers))

    assert layer_names(layers_run()) == [f"layer {number}" for number in range(1, 9)]
    assert named("net.first", "net.second") == ["first", "second"]
    assert named("blocks.0", "head") == ["blocks.0", "head"]
    assert named("only.0") == ["layer 1"]
    assert named("net.0", "net.2") == ["layer 1", "layer 2"]


def test_precisions_are_short():
    assert path_precision({"weight": 3588348.5, "bias": 0.0751}) == "0.075–3.6e6"
    assert path_precision({"weight": 660.4, "bias": 661.0}) == "660"
    assert path_precision({"weight": 1e-12}) == "1e-12"


def test_short():
    assert short("rotation", 8) == "rotation"
    assert short("rotations", 8) == "rotatio…"
    assert short("a\x00\n\ud800b", 8) == "a���b"


def test_ending():
    assert ending("conv.weight", 11) == "conv.weight"
    assert ending("blocks.0.paths.conv.weight", 12) == "…conv.weight"
    assert len(ending("blocks.0.paths.conv.weight", 12)) == 12
