"""Transforms of torchvision by stand-ins with the attributes that its documentation names: it is not installed here."""

import math

import pytest
from torch import nn

from covary.augment import FiniteGroup, from_torchvision, to_torchvision


class Standing:
    """An object with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Compose(Standing):
    pass


class RandomAffine(Standing):
    def __init__(self, degrees, translate=None, scale=None, shear=None, center=None):
        super().__init__(degrees=degrees, translate=translate, scale=scale, shear=shear, center=center)


class RandomRotation(Standing):
    def __init__(self, degrees, expand=False, center=None):
        super().__init__(degrees=degrees, expand=expand, center=center)


class ColorJitter(Standing):
    def __init__(self, brightness=None, contrast=None, saturation=None, hue=None):
        super().__init__(brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)


class RandomHorizontalFlip(Standing):
    pass


class RandomVerticalFlip(Standing):
    pass


class RandomApply(Standing):
    pass


class Normalize(Standing):
    pass


def widths(augment):
    return dict(zip(augment.names, augment.widths.tolist(), strict=True))


def test_every_range_is_read():
    pipeline = Compose(
        transforms=[
            RandomHorizontalFlip(p=0.3),
            RandomAffine([-20.0, 20.0], [0.1, 0.2], [0.8, 1.25], [-10.0, 10.0]),
            ColorJitter((0.8, 1.25), None, (0.5, 2.0), (-0.1, 0.1)),
        ]
    )
    found = widths(from_torchvision(pipeline))
    assert found == {
        "flip_x": pytest.approx(0.3),
        "rotation": pytest.approx(math.radians(20)),
        "shift_x": pytest.approx(0.2),
        "shift_y": pytest.approx(0.4),
        "scale_x": pytest.approx(math.log(1.25)),
        "scale_y": pytest.approx(math.log(1.25)),
        "shear": pytest.approx(math.asinh(math.tan(math.radians(10)) / 2)),
        "brightness": pytest.approx(math.log(1.25)),
        "saturation": pytest.approx(math.log(2)),
        "hue": pytest.approx(2 * math.pi * 0.1),
    }
    assert widths(from_torchvision(to_torchvision(from_torchvision(pipeline), pipeline))) == pytest.approx(found)


def test_modules_in_a_sequence_are_read():
    class RandomHorizontalFlip(nn.Module):
        p = 0.3

    pipeline = nn.Sequential(RandomHorizontalFlip())
    augment = from_torchvision(pipeline)
    assert widths(augment) == {"flip_x": pytest.approx(0.3)}
    assert to_torchvision(FiniteGroup(("identity", "flip_x"), 0.1), pipeline)[0].p == pytest.approx(0.1)
    assert pipeline[0].p == 0.3


@pytest.mark.parametrize("shear", [[-10.0, 10.0], [-10.0, 10.0, 0.0, 0.0], [-10.0, 10.0, -10.0, 10.0]])
def test_shears_there_and_back(shear):
    step = RandomAffine([0.0, 0.0], shear=shear)
    assert to_torchvision(from_torchvision(step), step).shear == pytest.approx(shear)


def test_learned_ranges_replace_those_of_a_copy():
    pipeline = [
        RandomVerticalFlip(p=0.5),
        RandomAffine([-20.0, 20.0], scale=[0.8, 1.25]),
        ColorJitter(hue=(-0.1, 0.1)),
        Normalize(mean=[0.5]),
    ]
    with pytest.warns(UserWarning, match="- Normalize: kept fixed: covary has no range for it"):
        augment = from_torchvision(pipeline)
    for part, values in zip(augment.parts[1:], ([0.5, 0.3, 0.1], [0.2]), strict=True):
        for place, value in enumerate(values):
            part.raw_widths.data[place] = value
    flip, affine, colors, last = to_torchvision(augment, pipeline)
    learned = widths(augment)
    assert flip.p == pytest.approx(learned["flip_y"])
    assert affine.degrees == pytest.approx([-math.degrees(learned["rotation"]), math.degrees(learned["rotation"])])
    assert affine.scale == pytest.approx([math.exp(-0.1), math.exp(0.1)]), "the narrower of both sides"
    assert affine.translate is None
    assert colors.hue == pytest.approx([-learned["hue"] / (2 * math.pi), learned["hue"] / (2 * math.pi)])
    assert colors.brightness is None
    assert last.mean == [0.5]
    assert pipeline[1].degrees == [-20.0, 20.0]


def test_what_is_not_learned_is_listed():
    pipeline = [
        RandomRotation([-20.0, 20.0], expand=True),
        RandomAffine([-20.0, 20.0], scale=[0.5, 1.0]),
        RandomApply(transforms=[], p=0.5),
        ColorJitter(brightness=(0.0, 2.0)),
    ]
    with pytest.warns(UserWarning, match="transforms of this") as caught:
        augment = from_torchvision(pipeline)
    said = str(caught[0].message)
    assert "- RandomRotation: not supported: it turns about a center of its own, or enlarges the image." in said
    assert "- RandomAffine: learned: rotation; kept fixed: scale_x from 0.5 to 1 is not around 1; scale_y from" in said
    assert "- RandomApply: not supported: one of several is drawn" in said
    assert widths(augment)["brightness"] == pytest.approx(math.log(2)), "a factor of 0 has no logarithm"
