import math

import numpy as np
import pytest

from covary.augment import Affine2d, FiniteGroup, from_albumentations, to_albumentations
from covary.errors import DataError, StructureError

A = pytest.importorskip("albumentations", reason="needs albumentations, an optional dependency")


def widths(augment):
    return dict(zip(augment.names, augment.widths.tolist(), strict=True))


def affine(**ranges):
    return A.Affine(**ranges, p=1.0)


def test_every_range_is_read():
    step = affine(
        rotate=(-20, 20),
        translate_percent={"x": (-0.1, 0.1), "y": (-0.2, 0.2)},
        scale={"x": (0.8, 1.25), "y": (0.5, 2.0)},
        shear={"x": (-10, 10), "y": (0, 0)},
    )
    assert widths(from_albumentations(step)) == {
        "rotation": pytest.approx(math.radians(20)),
        "shift_x": pytest.approx(0.2),
        "shift_y": pytest.approx(0.4),
        "scale_x": pytest.approx(math.log(1.25)),
        "scale_y": pytest.approx(math.log(2)),
        "shear": pytest.approx(math.asinh(math.tan(math.radians(10)) / 2)),
    }


STEPS = [
    affine(rotate=(-20, 20), shear={"x": (0, 0), "y": (-7, 7)}),
    affine(shear=(-7, 7), scale=(0.8, 1.25), translate_percent=(-0.1, 0.1)),
    A.Rotate(limit=(-30, 30), p=1.0),
    A.ColorJitter(brightness=(0.8, 1.25), contrast=(1, 1), saturation=(1, 1), hue=(-0.1, 0.1), p=1.0),
    A.HorizontalFlip(p=0.3),
    A.Transpose(p=0.3),
    A.D4(p=0.7),
    A.SquareSymmetry(p=0.7),
    A.Compose([A.HorizontalFlip(p=0.3), A.VerticalFlip(p=0.2)]),
    A.Compose([A.HorizontalFlip(p=0.5), A.RandomRotate90(p=0.8)]),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_there_and_back(step):
    spec = A.to_dict(step)
    again = to_albumentations(from_albumentations(spec), spec)
    assert widths(from_albumentations(again)) == pytest.approx(widths(from_albumentations(step)), rel=1e-6)
    made = A.from_dict(again)
    assert type(made) is type(step)
    assert made(image=np.zeros((8, 8, 3), dtype=np.uint8))["image"].shape == (8, 8, 3)


def test_shift_scale_rotate():
    spec = {
        "__class_fullname__": "ShiftScaleRotate",
        "p": 1.0,
        "shift_limit_x": [-0.1, 0.1],
        "shift_limit_y": [0.0, 0.0],
        "scale_limit": [-0.2, 0.25],
        "rotate_limit": [-45.0, 45.0],
    }
    augment = from_albumentations(spec)
    assert widths(augment) == {
        "shift_x": pytest.approx(0.2),
        "rotation": pytest.approx(math.pi / 4),
        "scale_x": pytest.approx(math.log(1.25)),
        "scale_y": pytest.approx(math.log(1.25)),
    }
    again = to_albumentations(augment, spec)
    assert again["scale_limit"] == pytest.approx([-0.2, 0.25])
    assert (again["shift_limit_x"], again["shift_limit_y"]) == (pytest.approx([-0.1, 0.1]), [0.0, 0.0])


def test_one_factor_for_both_sides_is_the_narrower():
    spec = A.to_dict(A.Affine(scale=(0.8, 1.25), keep_ratio=True, p=1.0))
    augment = Affine2d(("scale_x", "scale_y"), initial_width=(0.3, 0.1))
    scale = to_albumentations(augment, spec)["transform"]["scale"]
    assert scale["x"] == scale["y"] == pytest.approx([math.exp(-0.1), math.exp(0.1)], rel=1e-6)


def test_a_pipeline_that_is_applied_at_times_says_so():
    with pytest.raises(StructureError, match="Compose: not supported: all or none of it is applied, with p=0.5"):
        from_albumentations(A.Compose([A.Rotate(10)], p=0.5))


def test_what_is_not_learned_is_listed_and_kept():
    pipeline = A.Compose(
        [
            A.HorizontalFlip(p=0.5),
            A.D4(p=0.5),
            affine(rotate=(-10, 10), translate_px=(-3, 3)),
            A.OneOf([A.Blur()]),
            A.RandomBrightnessContrast(),
            A.Normalize(),
        ]
    )
    with pytest.warns(UserWarning, match="transforms of this") as caught:
        augment = from_albumentations(pipeline)
    said = str(caught[0].message)
    assert "2 of 6 transforms of this albumentations pipeline are learned." in said
    assert "- D4: kept fixed: another flip or turn is beside it" in said
    assert "- Affine: learned: rotation; kept fixed: translate_px, use translate_percent to learn the shift." in said
    assert "- OneOf: not supported: one of several is drawn" in said
    assert "- RandomBrightnessContrast: kept fixed: it adds to the values" in said
    before, after = A.to_dict(pipeline), to_albumentations(augment, pipeline)
    for place in (1, 3, 4, 5):
        assert after["transform"]["transforms"][place] == before["transform"]["transforms"][place]


def test_advice_is_given_only_where_something_is_not_learned():
    with pytest.warns(UserWarning, match="1 of 1 transforms") as caught:
        from_albumentations(A.Compose([A.Rotate(limit=10, p=0.5)]))
    assert "Apply what is not learned" not in str(caught[0].message)


def test_bad_input():
    with pytest.raises(DataError, match="got list. Put several transforms into an albumentations.Compose"):
        from_albumentations([])
    with pytest.raises(DataError, match="__class_fullname__"):
        from_albumentations({"transform": {}})
    with pytest.warns(UserWarning, match="All eight are drawn alike here"):
        to_albumentations(FiniteGroup("dihedral", [0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), A.D4(p=0.5))
