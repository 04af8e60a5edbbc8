import math

import pytest
import torch
from torch import nn

from covary.augment import Affine2d, Composed, FiniteGroup, from_kornia, to_kornia
from covary.errors import StructureError

K = pytest.importorskip("kornia.augmentation", reason="needs kornia, an optional dependency")


def widths(augment):
    return dict(zip(augment.names, augment.widths.tolist(), strict=True))


def test_every_range_is_read():
    pipeline = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=0.3),
        K.RandomAffine(20.0, translate=(0.1, 0.2), scale=(0.8, 1.25), shear=10.0, p=1.0),
        K.ColorJitter((0.8, 1.25), (0.5, 2.0), (0.8, 1.25), 0.1, p=1.0),
    )
    found = widths(from_kornia(pipeline))
    assert found.pop("flip_x") == pytest.approx(0.3)
    assert found == {
        "rotation": pytest.approx(math.radians(20)),
        "shift_x": pytest.approx(0.2),
        "shift_y": pytest.approx(0.4),
        "scale_x": pytest.approx(math.log(1.25)),
        "scale_y": pytest.approx(math.log(1.25)),
        "shear": pytest.approx(math.asinh(math.tan(math.radians(10)) / 2)),
        "brightness": pytest.approx(math.log(1.25)),
        "contrast": pytest.approx(math.log(2)),
        "saturation": pytest.approx(math.log(1.25)),
        "hue": pytest.approx(2 * math.pi * 0.1),
    }


STEPS = [
    K.RandomRotation(20.0, p=1.0),
    K.RandomTranslate((-0.1, 0.1), (-0.2, 0.2), p=1.0),
    K.RandomTranslate((-0.1, 0.1), p=1.0),
    K.RandomShear((-5.0, 5.0), p=1.0),
    K.RandomShear((-5.0, 5.0, -5.0, 5.0), p=1.0),
    K.RandomHue((-0.1, 0.1), p=1.0),
    K.RandomAffine(20.0, scale=(0.8, 1.25, 0.5, 2.0), p=1.0, padding_mode="border", same_on_batch=True),
    K.ColorJitter(brightness=(0.8, 1.25), p=1.0),
    K.RandomVerticalFlip(p=0.2, keepdim=True),
    K.RandomRotation90((-1.5, 2.5), p=0.4),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_there_and_back(step):
    again = to_kornia(from_kornia(step), step)
    assert type(again) is type(step)
    assert (again.same_on_batch, again.keepdim, again.flags) == (step.same_on_batch, step.keepdim, step.flags)
    assert again.p == pytest.approx(step.p)
    assert widths(from_kornia(again)) == pytest.approx(widths(from_kornia(step)))


def test_learned_ranges_are_drawn():
    """The largest of many angles that the new transform draws is the learned width."""
    step = K.RandomAffine(20.0, translate=(0.1, 0.1), p=1.0)
    again = to_kornia(Affine2d(("rotation", "shift_x", "shift_y"), initial_width=(0.5, 0.6, 0.1)), step)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = again.forward_parameters(torch.Size((5000, 1, 10, 20)))
    assert drawn["angle"].abs().max() == pytest.approx(math.degrees(0.5), rel=0.01)
    assert drawn["translations"][:, 0].abs().max() == pytest.approx(0.6 * 20 / 2, rel=0.01)
    assert drawn["translations"][:, 1].abs().max() == pytest.approx(0.1 * 10 / 2, rel=0.01)


def test_what_is_not_learned_is_listed_and_kept():
    pipeline = K.AugmentationSequential(
        K.RandomRotation(20.0, p=0.5),
        K.RandomAffine((10.0, 30.0), translate=(0.1, 0.1), p=1.0),
        K.ColorJiggle(0.1, 0.1),
        K.RandomErasing(),
        nn.Identity(),
        K.RandomHorizontalFlip(p=1.0),
        K.ImageSequential(K.RandomPosterize(), random_apply=1),
    )
    with pytest.warns(UserWarning, match="transforms of this") as caught:
        augment = from_kornia(pipeline)
    assert str(caught[0].message) == (
        "2 of 7 transforms of this kornia pipeline are learned.\n"
        "- RandomRotation: learned: rotation (applied always, not with p=0.5).\n"
        "- RandomAffine: learned: shift_x, shift_y; kept fixed: rotation from 10 to 30 is not around 0.\n"
        "- ColorJiggle: kept fixed: its formulas are not those of kornia's ColorJitter; use that class to learn the "
        "range.\n"
        "- RandomErasing: kept fixed: covary has no range for it.\n"
        "- Identity: kept fixed: covary has no range for it.\n"
        "- RandomHorizontalFlip: kept fixed: always applied.\n"
        "- ImageSequential: not supported: one of several is drawn; list them one after another instead.\n"
        "Apply what is not learned to the data, or in weight steps only by covary.data.Augmented."
    )
    assert set(augment.names) == {"rotation", "shift_x", "shift_y"}
    again = to_kornia(augment, pipeline)
    assert [type(step) for step in again.children()] == [type(step) for step in pipeline.children()]
    assert again[1]._param_generator.degree_sampler.low == pytest.approx(10.0)
    assert again[5].p == 1.0
    assert again(torch.rand(2, 3, 8, 8)).shape == (2, 3, 8, 8)
    assert pipeline[0].p == 0.5, "the pipeline itself is not changed"


def test_a_second_transform_of_the_same_name_is_kept():
    with pytest.warns(UserWarning, match="RandomRotation: kept fixed: rotation is learned by another transform"):
        augment = from_kornia(nn.Sequential(K.RandomAffine(10.0, p=1.0), K.RandomRotation(20.0, p=1.0)))
    assert widths(augment) == {"rotation": pytest.approx(math.radians(10))}


def test_flips_and_turns_together_are_the_dihedral_group():
    augment = from_kornia(nn.Sequential(K.RandomHorizontalFlip(p=0.5), K.RandomRotation90((-1.5, 2.5), p=1.0)))
    assert isinstance(augment, FiniteGroup)
    assert augment.widths.tolist() == pytest.approx([1 / 8] * 7)


def test_turns_are_rounded_as_kornia_does():
    augment = from_kornia(K.RandomRotation90((0, 3), p=1.0))
    assert widths(augment) == {
        "quarter_turn": pytest.approx(1 / 3),
        "half_turn": pytest.approx(1 / 3),
        "three_quarter_turn": pytest.approx(1 / 6),
    }


def test_bad_input():
    with pytest.raises(StructureError, match="Put several transforms into a kornia.augmentation.AugmentationSequent"):
        from_kornia([K.RandomHorizontalFlip()])
    with pytest.raises(StructureError, match="0 of 1 transforms .*\n- RandomErasing: kept fixed"):
        from_kornia(K.RandomErasing())
    with pytest.raises(StructureError, match="got one without rotation"):
        to_kornia(Affine2d(("shift_x",)), K.RandomRotation(20.0))
    with pytest.raises(StructureError, match="flips in both"):
        to_kornia(Composed(FiniteGroup(), Affine2d(("rotation",))), K.RandomRotation(20.0))
    with pytest.warns(UserWarning, match="Learned probabilities"):
        to_kornia(
            FiniteGroup("flips", [0.01, 0.01, 0.4]), nn.Sequential(K.RandomHorizontalFlip(), K.RandomVerticalFlip())
        )
