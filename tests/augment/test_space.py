"""Rotations and scales in three dimensions, of points and of volumes."""

import math

import pytest
import torch

from covary.augment import Points3d, Volume3d
from covary.errors import ShapeError, StructureError

AXES = {"rotation_x": (1, 2), "rotation_y": (2, 0), "rotation_z": (0, 1)}  # the plane that turns, in its order


def moved(make, x, **widths):
    augment = make(tuple(widths), initial_width=widths)
    return augment.transform(x, torch.ones(len(x), 1, len(widths)))[:, 0].detach()


@pytest.mark.parametrize("name", AXES)
def test_points_turn_by_the_right_hand_rule(name, generator):
    x, angle = torch.rand(2, 4, 3, generator=generator), 0.7
    first, second = AXES[name]
    expected = x.clone()
    expected[..., first] = math.cos(angle) * x[..., first] - math.sin(angle) * x[..., second]
    expected[..., second] = math.sin(angle) * x[..., first] + math.cos(angle) * x[..., second]
    torch.testing.assert_close(moved(Points3d, x, **{name: angle}), expected)


def test_scale_and_jitter_of_points(generator):
    x = torch.rand(300, 4, 3, generator=generator)
    torch.testing.assert_close(moved(Points3d, x, scale=0.5), x * math.exp(0.5))
    augment = Points3d(("jitter",), initial_width=0.1)
    added = (augment.transform(x, augment.sample_noise(torch.arange(300), 1, seed=0))[:, 0] - x).detach()
    assert float(added.std()) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", AXES)
def test_a_quarter_turn_of_a_volume_is_that_of_its_points(name, generator):
    """Voxels that are not on a cube: the axis of the turn has another length."""
    side = {"rotation_x": (4, 4, 3), "rotation_y": (4, 3, 4), "rotation_z": (3, 4, 4)}[name]  # D, H, W
    x = torch.rand(1, 1, *side, generator=generator)
    first, second = AXES[name]
    # x, y and z are along the last, the second last and the third last axis; content goes from the first to the second
    expected = torch.rot90(x, 1, (-1 - first, -1 - second))
    torch.testing.assert_close(moved(Volume3d, x, **{name: math.pi / 2}), expected)


def test_a_larger_volume_shows_its_center():
    x = torch.arange(8.0).expand(1, 1, 8, 8, 8)
    found = moved(Volume3d, x, scale=math.log(2))[0, 0, 4, 4]
    torch.testing.assert_close(found, (torch.arange(8.0) - 3.5) / 2 + 3.5)


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"points \(N, P, 3\), got \(2, 3\)"):
        moved(Points3d, torch.rand(2, 3), scale=0.1)
    with pytest.raises(ShapeError, match=r"volumes \(N, C, D, H, W\), got \(2, 3, 4, 4\)"):
        moved(Volume3d, torch.rand(2, 3, 4, 4), scale=0.1)
    with pytest.raises(StructureError, match="got 'jitter'"):
        Volume3d(("jitter",))
