"""Widths inside of limits: the parametrization, its gradient, records, and steps that would leave the limits."""

import math

import pytest
import torch
from torch import nn

import covary
from covary.augment import Affine2d, ColorJitter, Composed, Correlated, FiniteGroup, Rotation2d, bounded, load, save
from covary.augment.export import from_json, to_json
from covary.augment.limits import limits_of, project_
from covary.errors import DataError, StructureError
from covary.records import Epoch, Symmetry
from covary.records.settling import at_limit, with_states
from covary.training.widths import Move, WidthLearning

NAMES = ("rotation", "shift_x", "scale_x")


def bounded_affine():
    return bounded(Affine2d(NAMES, initial_width=0.2), rotation=(0, 0.5), scale_x=(0.1, 0.3))


def test_learning_starts_at_the_present_widths():
    augment = bounded_affine()
    torch.testing.assert_close(augment.widths, torch.full((3,), 0.2))
    noise = augment.sample_noise(torch.arange(2), 4, seed=0)
    images = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    free = Affine2d(NAMES, initial_width=0.2).transform(images, noise)
    torch.testing.assert_close(augment.transform(images, noise), free)


@pytest.mark.parametrize("raw", [-50.0, -1.0, 0.0, 0.3, 1.0, 80.0])
def test_no_parameter_leaves_the_limits(raw):
    augment = bounded_affine()
    augment.raw_widths.data.fill_(raw)
    rotation, shift, scale = augment.widths.tolist()
    assert 0 <= rotation <= 0.5
    assert shift == pytest.approx(abs(raw)), "it has no limits"
    assert 0.1 <= scale <= 0.3
    # the formula, with numbers of Python
    assert rotation == pytest.approx(min(math.pi * math.tanh(abs(raw) / math.pi), 0.5))
    assert scale == pytest.approx(min(max(abs(raw), 0.1), 0.3))


@pytest.mark.parametrize("raw", [0.05, 0.2, 2.0])
def test_gradients_are_those_without_limits(raw):
    """Inside of the limits these are those of central differences; at a limit, a width can leave it."""
    bound, free = bounded_affine(), Affine2d(NAMES)
    for augment in (bound, free):
        augment.raw_widths.data.fill_(raw)
    gradients = [torch.autograd.grad(augment.widths.sum(), augment.raw_widths)[0] for augment in (bound, free)]
    torch.testing.assert_close(*gradients)
    if raw == 0.2:
        ends = []
        for step in (1e-6, -1e-6):
            bound.raw_widths.data.fill_(raw + step)
            ends.append(bound.widths.detach())
        torch.testing.assert_close(gradients[0], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("raw", [-5.0, 0.03, 0.2, 5.0])
def test_parameters_are_set_back_to_the_limits(raw):
    for augment in (bounded_affine(), Correlated(bounded_affine())):
        parameter = getattr(augment, augment.hyperparameters[0])
        parameter.data.mul_(raw / 0.2)
        widths = augment.widths.detach().clone()
        project_(Composed(augment))
        torch.testing.assert_close(augment.widths, widths, rtol=0, atol=1e-12)
        base = getattr(augment, "base", augment)
        base.limits = {}
        torch.testing.assert_close(augment.widths, widths, rtol=0, atol=1e-12)


def test_correlated_and_composed():
    mix = torch.tensor([[0.3, 0.0], [0.1, 0.2]])
    base = Correlated(Affine2d(("rotation", "shift_x")), mix)
    augment = bounded(Composed(FiniteGroup(), base, ColorJitter(("hue",))), rotation=(0, 0.5), hue=(0, 1))
    torch.testing.assert_close(augment.parts[1].mix, mix)
    assert limits_of(augment) == {"rotation": (0.0, 0.5), "hue": (0.0, 1.0)}
    for part in augment.parts[1:]:
        getattr(part, part.hyperparameters[0]).data.mul_(100)
    widths = dict(zip(augment.names, augment.widths.tolist(), strict=True))
    assert (widths["rotation"], widths["hue"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert widths["shift_x"] > 10
    assert limits_of(base) == {}, "the augmentation itself is not changed"


@pytest.mark.parametrize("factor", [1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip(factor, dtype, tmp_path):
    for augment in (bounded_affine(), Correlated(bounded_affine())):
        augment.to(dtype)
        getattr(augment, augment.hyperparameters[0]).data.mul_(factor)
        save(augment, tmp_path / "augment.json")
        loaded = load(tmp_path / "augment.json")
        assert limits_of(loaded) == limits_of(augment) == {"rotation": (0.0, 0.5), "scale_x": (0.1, 0.3)}
        torch.testing.assert_close(loaded.widths.to(dtype), augment.widths, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "limits", [{"rotation": [0.5]}, {"shear": [0, 1]}, {"rotation": [0, "1"]}, {"rotation": [1, 0]}, 3]
)
def test_limits_of_a_file_are_checked(limits):
    with pytest.raises(DataError, match="limits"):
        from_json(to_json(bounded_affine()) | {"limits": limits})


def test_bad_input():
    augment = Affine2d(NAMES, initial_width=0.2)
    with pytest.raises(StructureError, match="Expected limits for rotation, shift_x, scale_x, got 'shear'"):
        bounded(augment, shear=(0, 1))
    for wrong in ((0.5, 0.1), (0.2, 0.2), (-1, 1), (0, math.inf), (0, 1, 2)):
        with pytest.raises(DataError, match="limits .* of 'shift_x' with 0 ≤ a < b"):
            bounded(augment, shift_x=wrong)
    with pytest.raises(DataError, match="from 0.3 to 0.5, its limits, got 0.2. Start inside"):
        bounded(augment, shift_x=(0.3, 0.5))
    with pytest.raises(DataError, match="angle 'rotation' up to π, got 4"):
        bounded(augment, rotation=(0, 4))
    with pytest.raises(StructureError, match="'flip_x' of FiniteGroup"):
        bounded(FiniteGroup(), flip_x=(0, 0.2))


class Network(nn.Module):
    def __init__(self, augment):
        super().__init__()
        self.augment = augment


def test_natural_gradient_steps_stay_inside_and_come_back():
    """Steps outwards, as the evidence of a symmetry would have, then inwards."""
    augment = bounded(Rotation2d(0.2), rotation=(0, 0.5))
    network, learning = Network(augment), WidthLearning(0.1)
    reached = []
    for sign, num_steps in ((1.0, 30), (-1.0, 8)):
        for _ in range(num_steps):
            (slope,) = torch.autograd.grad(augment.widths.sum(), augment.raw_widths)
            gradients = [[sign * 200 * slope * (1 + 0.1 * noise)] for noise in (-1.0, 0.0, 1.0)]
            learning.climb(Move(network, 0.1), gradients, (100, 1000), 1.0)
            reached.append(augment.widths.item())
    assert max(reached) <= 0.5
    assert reached[29] == pytest.approx(0.5), "it is at its limit"
    assert augment.raw_widths.item() < 0.51
    assert min(reached[30:]) < 0.4, "and leaves it again"


def test_states():
    epochs = [
        Epoch(number, -1.0, {"rotation": 0.1 + 0.04 * number}, {}, None, None, 1.0, False) for number in range(1, 11)
    ]
    made = [Symmetry("rotation", 0.49, "radians", "±28°", limits=limits) for limits in ([0.0, 0.5], [0.0, 0.9], None)]
    states = [with_states([symmetry], epochs, None)[0].state for symmetry in made]
    assert states == ["at its limit", "still moving", "still moving"]
    assert not at_limit(Symmetry("rotation", 0.01, "radians", "", limits=[0.0, 0.5]))
    assert at_limit(Symmetry("rotation", 0.11, "radians", "", limits=[0.1, 0.5]))
    assert with_states(made[:1], epochs[:1], None)[0].state == "not learned yet"


def test_a_fit_records_the_limits(tmp_path):
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    augment = bounded(Rotation2d(0.05), rotation=(0, 0.052))
    network = covary.Averaged(covary.networks.mlp(2, 8, 2), augment, num_samples=4)
    config = covary.FitConfig().replace(epochs=12, hyper={"burn_in": 2})
    run = covary.fit(network, (x, (x.norm(dim=1) > 1.2).long()), config, callbacks=())
    assert run.symmetries[0].limits == [0.0, 0.052]
    assert run.symmetries[0].width <= 0.052
    loaded = covary.load(run.save(tmp_path))
    assert limits_of(loaded.augment) == {"rotation": (0.0, 0.052)}
    assert torch.equal(loaded.augment.widths, run.augment.widths)
