"""One symmetry of an augmentation removed, or made complete."""

import math

import pytest
import torch
from torch import nn

from covary.augment import (
    Affine2d,
    ColorJitter,
    Composed,
    Correlated,
    FiniteGroup,
    LearnedGenerators,
    Mirror3d,
    PerClass,
    Rotation2d,
    bounded,
)
from covary.augment.amounts import complete_width, num_elements, set_full, set_none
from covary.errors import StructureError

WIDTHS = {
    "affine": (lambda: Affine2d(("rotation", "shift_x"), initial_width=(0.3, 0.2)), "rotation", math.pi),
    "shift": (lambda: Affine2d(("rotation", "shift_x"), initial_width=(0.3, 0.2)), "shift_x", 1.0),
    "points": (lambda: Rotation2d(0.4), "rotation", math.pi),
    "correlated": (lambda: Correlated(Affine2d(("scale_x", "scale_y"), initial_width=0.2)), "scale_y", math.log(2)),
    "color": (lambda: ColorJitter(("brightness", "contrast"), initial_width=0.2), "contrast", math.log(2)),
    "generators": (lambda: LearnedGenerators(2, dim=2, initial_width=0.4), "generator_2", math.pi),
    "mirror": (lambda: Mirror3d(initial_probability=0.1), "mirror_y", 0.5),
    "per class": (
        lambda: PerClass(Affine2d(("rotation", "shift_x"), initial_width=0.2), ("6", "9")),
        "rotation[9]",
        math.pi,
    ),
    "limits": (
        lambda: bounded(Affine2d(("rotation", "shift_x"), initial_width=0.3), rotation=(0.2, 0.5)),
        "rotation",
        math.pi,
    ),
    "limits of correlated": (
        lambda: bounded(Correlated(Affine2d(("scale_x", "scale_y"), initial_width=0.2)), scale_y=(0.1, 0.5)),
        "scale_y",
        math.log(2),
    ),
    "composed": (lambda: Composed(FiniteGroup("flips", 0.1), Affine2d(("rotation",))), "rotation", math.pi),
}


@pytest.mark.parametrize("case", WIDTHS)
def test_one_width_is_set_and_the_others_stay(case):
    make, name, full = WIDTHS[case]
    for set_amount, expected in ((set_none, 0.0), (set_full, full)):
        augment = make()
        before, own = augment.widths.detach().clone(), augment.names.index(name)
        if case == "color" and set_amount is set_full:
            expected = complete_width(augment.units[own], 0.2)
        set_amount(augment, name)
        assert augment.widths[own].item() == pytest.approx(expected, abs=1e-5)
        others = [k for k in range(len(before)) if k != own]
        torch.testing.assert_close(augment.widths[others].detach(), before[others])


def test_what_was_learned_to_be_wider_is_doubled_but_no_angle_is():
    assert complete_width("half-widths", 1.5) == 3.0
    assert complete_width("radians", 3.1415926) == pytest.approx(math.pi, rel=1e-5)
    assert complete_width("lumens", 0.1) == 1.0


def test_samples_cycle_through_the_elements():
    assert num_elements(Rotation2d(0.3)) == 1
    assert num_elements(Mirror3d()) == 8
    assert num_elements(Composed(FiniteGroup("flips", 0.1), Affine2d(("rotation",)))) == 4


def probabilities(group: FiniteGroup) -> dict[str, float]:
    return dict(zip(group.elements, group.probabilities.tolist(), strict=True))


def test_a_complete_element_makes_transformed_data_as_probable():
    group = FiniteGroup("dihedral", {n: 0.02 * k for k, n in enumerate(FiniteGroup("dihedral").names, 1)})
    set_full(group, "quarter_turn")
    found = probabilities(group)
    for turned, element in (("quarter_turn", "identity"), ("half_turn", "quarter_turn"), ("transpose", "flip_x")):
        assert found[turned] == pytest.approx(found[element])
    assert found["flip_x"] < found["identity"], "of mirror images nothing was said"
    assert sum(found.values()) == pytest.approx(1.0)


def test_without_an_element_the_most_probable_subgroup_remains():
    group = FiniteGroup("flips", {"flip_x": 0.3, "flip_y": 0.1, "half_turn": 0.2})
    set_none(group, "flip_x")
    found = probabilities(group)
    assert found["flip_x"] == pytest.approx(0.0, abs=1e-9)
    assert found["flip_y"] == pytest.approx(0.0, abs=1e-9), "with half turns it would make the flip again"
    assert found["half_turn"] == pytest.approx(0.2 / 0.6)


def test_an_augmentation_of_ones_own_needs_a_parameter():
    class Own(nn.Module):
        names = ("own",)

        def __init__(self, learnable: bool) -> None:
            super().__init__()
            self.raw = nn.Parameter(torch.ones(1))
            if learnable:
                self.widths = nn.Parameter(torch.ones(1))
            else:
                self.register_buffer("widths", torch.ones(1))

        def sample_noise(self, index, num_samples, *, seed):
            raise NotImplementedError

        def transform(self, x, noise):
            raise NotImplementedError

    own = Own(True)
    set_none(own, "own")
    assert own.widths.item() == 0
    with pytest.raises(StructureError, match="'own' cannot be set"):
        set_none(Own(False), "own")
