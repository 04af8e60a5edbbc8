"""Augmentations by their descriptions."""

import pytest
import torch

from covary.augment import Affine2d, ColorJitter, Composed, Correlated, FiniteGroup
from covary.errors import CovaryError
from covary.experiments.augmentations import build, layout_of
from covary.groups.affine import AFFINE_NAMES


@pytest.mark.parametrize(
    ("description", "kind", "names"),
    [
        ("affine", Affine2d, AFFINE_NAMES),
        ("affine:rotation, shift_x", Affine2d, ("rotation", "shift_x")),
        ("correlated", Correlated, AFFINE_NAMES),
        ("correlated:scale_x,scale_y", Correlated, ("scale_x", "scale_y")),
        ("color", ColorJitter, ColorJitter().names),
        ("color:brightness,contrast", ColorJitter, ("brightness", "contrast")),
        ("affine:rotation+color:hue", Composed, ("rotation", "hue")),
        ("flips", FiniteGroup, FiniteGroup("flips").names),
        ("quarter-turns", FiniteGroup, FiniteGroup("quarter_turns").names),
        ("dihedral", FiniteGroup, FiniteGroup("dihedral").names),
        ("flips + affine:shear", Composed, (*FiniteGroup("flips").names, "shear")),
    ],
)
def test_a_description_names_its_augmentation(description, kind, names):
    augment = build(description)
    assert isinstance(augment, kind)
    assert augment.names == tuple(names)
    assert bool((augment.widths > 0).all()), "0 is a stationary point"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_part_has_the_type(dtype):
    augment = build("flips+correlated", dtype=dtype)
    assert {parameter.dtype for parameter in augment.parameters()} == {getattr(torch, dtype)}
    assert augment.widths.dtype == getattr(torch, dtype)


def test_widths_by_name_are_those_it_starts_with_and_the_others_are_0():
    augment = build(
        "dihedral+affine:rotation,shift_x", {"rotation": 1.25} | dict.fromkeys(FiniteGroup("dihedral").names, 0.1)
    )
    widths = dict(zip(augment.names, augment.widths.tolist(), strict=True))
    assert widths["rotation"] == pytest.approx(1.25, rel=1e-6)
    assert widths["shift_x"] == 0
    assert widths["flip_x"] == pytest.approx(0.1, rel=1e-6)


def test_elements_of_a_group_that_are_not_named_are_left_out():
    augment = build("dihedral", {"flip_x": 0.5})
    assert augment.names == ("flip_x",)
    assert augment.widths.tolist() == pytest.approx([0.5])


def test_widths_may_lie_in_different_parts():
    augment = build("affine:rotation+affine:shift_x", {"rotation": 1.0, "shift_x": 0.5}, "float64")
    assert augment.widths.tolist() == pytest.approx([1.0, 0.5], rel=1e-6)


@pytest.mark.parametrize(
    ("description", "widths", "expected"),
    [
        ("wobble", None, "No augmentation is called 'wobble': expected one of affine"),
        ("", None, "No augmentation is called ''"),
        ("flips:flip_x", None, "No augmentation is called 'flips:flip_x'"),
        ("affine:wobble", None, "'wobble'"),
        ("color:wobble", None, "'wobble'"),
        ("affine:rotation,rotation", None, "different names"),
        ("affine+affine", None, "common name"),
        ("affine:rotation", {"shift_x": 1.0}, "'shift_x' is no transform of the augmentation 'affine:rotation'"),
        ("affine", {"rotation": -1.0}, "-1"),
        ("flips", {"flip_x": 0.0}, "Expected probabilities above 0"),
        ("flips", {"flip_x": 0.2, "flip_y": 0.2}, "form a group, .*without their products half_turn"),
    ],
)
def test_what_cannot_be_built_is_named(description, widths, expected):
    with pytest.raises(CovaryError, match=expected):
        build(description, widths)


def test_widths_of_colors_by_name():
    augment = build("color:brightness,hue", {"hue": 0.5}, "float64")
    assert augment.widths.tolist() == pytest.approx([0.0, 0.5])


@pytest.mark.parametrize(
    ("description", "layout"),
    [
        ("none", "images"),
        ("flips+affine", "images"),
        ("signal:shift", "signals"),
        ("points", "points"),
        ("mirror+volume", "volumes"),
        ("mirror", "space"),
    ],
)
def test_an_augmentation_says_what_it_transforms(description, layout):
    assert layout_of(description) == layout


@pytest.mark.parametrize("description", ["signal+points", "mirror+affine", "volume+color"])
def test_augmentations_of_different_data_are_refused(description):
    with pytest.raises(CovaryError, match="of one kind of data"):
        layout_of(description)


def test_widths_of_other_data_by_name():
    augment = build("points:scale,jitter+mirror", {"scale": 0.5, "mirror_y": 0.25})
    assert augment.names == ("scale", "jitter", "mirror_y")
    assert augment.widths.tolist() == pytest.approx([0.5, 0.0, 0.25])
