"""Widths for each class: outputs are averages over the samples of their own class, and a 6 turns less than a 0."""

import math

import pytest
import torch

import covary
from covary.augment import Affine2d, FiniteGroup, PerClass, Rotation2d
from covary.augment.export import from_json, to_json
from covary.errors import DataError, ShapeError, StructureError
from covary.networks import mlp
from training_models import PLAIN


def per_class(*widths):
    augment = PerClass(Rotation2d(0.1), [str(number) for number in range(len(widths))])
    with torch.no_grad():
        for part, width in zip(augment.parts, widths, strict=True):
            part.raw_widths.copy_(Rotation2d(width).raw_widths)
    return augment


def network(num_outputs):
    return mlp(2, 6, num_outputs, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("num_sets", [1, 2])
def test_each_output_is_that_of_a_network_averaged_with_the_widths_of_its_class(num_sets):
    widths, inner, x = (0.3, 1.2, 2.0), network(3), torch.randn(5, 2)
    found = covary.Averaged(inner, per_class(*widths), 12, num_sets=num_sets)(x, seed=3)
    for of, width in enumerate(widths):
        alone = covary.Averaged(inner, Rotation2d(width), 4, num_sets=num_sets)(x, seed=3)
        torch.testing.assert_close(found[:, of], alone[:, of])
        assert not torch.allclose(found[:, of], alone[:, of - 1]), "a control"


def test_equal_widths_are_one_common_augmentation():
    inner, x = network(2), torch.randn(4, 2)
    found = covary.Averaged(inner, per_class(0.7, 0.7), 8)(x, seed=1)
    torch.testing.assert_close(found, covary.Averaged(inner, Rotation2d(0.7), 4)(x, seed=1))


def test_gradients_of_the_evidence_are_central_differences():
    x, y = torch.randn(6, 2), torch.arange(6) % 2
    averaged = covary.Averaged(network(2), per_class(0.4, 0.9), 4)
    model = covary.Model(averaged)
    gradients = covary.hypergrad.direct(model, (x, y), "full")
    for of, part in enumerate(averaged.augment.parts):
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                part.raw_widths.add_(step)
            values.append(float(covary.log_evidence(model, (x, y), "full").log_evidence))
            with torch.no_grad():
                part.raw_widths.sub_(step)
        name = f"augment.parts.{of}.raw_widths"
        assert float(gradients[name]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


def test_names_units_and_a_record_that_is_read_back():
    augment = PerClass(Affine2d(("rotation", "shift_x")), ("cat", "dog"))
    assert augment.names == ("rotation[cat]", "shift_x[cat]", "rotation[dog]", "shift_x[dog]")
    assert augment.units == ("radians", "half-widths") * 2
    with torch.no_grad():
        augment.parts[1].raw_widths.mul_(3)
    again = from_json(to_json(augment))
    assert again.names == augment.names
    torch.testing.assert_close(again.widths, augment.widths)
    broken = to_json(augment)
    broken["parts"] = broken["parts"][:1]
    with pytest.raises(DataError, match="2 records, one per class"):
        from_json(broken)


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="multiple of 3 samples"):
        per_class(0.1, 0.2, 0.3).sample_noise(torch.arange(2), 4, seed=0)
    with pytest.raises(ShapeError, match="as many classes as the network has outputs"):
        covary.Averaged(network(3), per_class(0.1, 0.2), 4)(torch.randn(2, 2))
    with pytest.raises(StructureError, match="no version per class"):
        PerClass(FiniteGroup("flips"), ("a", "b"))
    with pytest.raises(StructureError, match="different names"):
        PerClass(Rotation2d(0.1), ("a", "a"))


def test_a_six_and_a_nine_turn_less_than_a_zero():
    """Class 0 is a whole ring; of the smaller ring, 6 and 9 are opposite arcs of ±20°, which half a turn exchanges."""
    noise = torch.Generator().manual_seed(0)
    y = torch.arange(180) % 3
    turn = 2 * torch.rand(180, generator=noise) - 1
    angle = torch.where(y == 0, math.pi * turn, math.radians(20) * turn + math.pi * (y == 2))
    x = torch.where(y == 0, 1.0, 0.5)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    x = x + 0.04 * torch.randn(180, 2, generator=noise)
    inner = mlp(2, 20, 3, generator=torch.Generator().manual_seed(2))
    averaged = covary.Averaged(inner, PerClass(Rotation2d(0.2), ("0", "6", "9")), 12)
    model = covary.Model(averaged, prior=covary.Prior(averaged, "scalar", 0.3))
    config = PLAIN.replace(
        epochs=100,
        curvature="full",
        weights={"batch_size": 180, "lr": 0.05},
        hyper={"width_optimizer": "adam", "max_width_change": 100.0, "burn_in": 33, "every": 2, "probes": "exact"},
        evaluation={"num_evaluations": 1},
    ).replace(hyper={"num_prior_steps": 1, "augment_lr_min": 0.002})
    widths = {entry.name: entry.width for entry in covary.fit(model, (x, y), config, callbacks=()).symmetries}
    assert widths["rotation[0]"] > math.radians(70)
    assert max(widths["rotation[6]"], widths["rotation[9]"]) < 0.8 * widths["rotation[0]"]
