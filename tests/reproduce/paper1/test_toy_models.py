"""The points of the toy study against their description."""

import math

import pytest
import torch

from covary.errors import DataError
from covary.reproduce.paper1.toy_models import polar_coordinates, rotated_arcs

NUM_BLOB = 33  # a third of the hundred points of class 1


def angles(x):
    return torch.atan2(x[:, 1], x[:, 0]).rad2deg()


def test_each_class_has_half_of_the_points():
    points = rotated_arcs(seed=0)
    assert points.x.shape == (200, 2)
    assert points.x.dtype == torch.float32
    assert points.y.bincount().tolist() == [100, 100]


def test_without_noise_points_lie_on_their_arcs():
    points = rotated_arcs(noise=0.0, seed=3, dtype=torch.float64)
    radii = points.x.norm(dim=1)
    torch.testing.assert_close(radii[points.y == 0], torch.full((100,), 0.5))
    of_one = radii[points.y == 1]
    assert int((of_one == 0).sum()) == NUM_BLOB
    torch.testing.assert_close(of_one[of_one > 0], torch.ones(100 - NUM_BLOB))


def test_angles_are_uniform_on_the_arc():
    points = rotated_arcs(num_data=20_000, noise=0.0, seed=1, dtype=torch.float64)
    found = angles(points.x[points.y == 0]).sort().values
    assert found[0] >= 0
    assert found[-1] <= 120
    # the distance of Kolmogorov and Smirnov: at most 1.95 / √N but once in a thousand seeds
    uniform = torch.linspace(0, 1, len(found))
    assert float((found / 120 - uniform).abs().max()) < 1.95 / math.sqrt(len(found))


def test_noise_is_independent_in_each_coordinate():
    still, moved = (rotated_arcs(20_000, noise, seed=2, dtype=torch.float64).x for noise in (0.0, 0.07))
    # of points of class 0 away from the axes, where a coordinate is cos α or sin α times the radius plus noise
    base = still[:10_000] / 0.5
    chosen = (base.abs() > 0.1).all(1)
    noise = ((moved - still)[:10_000] / base)[chosen]
    torch.testing.assert_close(noise.std(0), torch.full((2,), 0.07), rtol=0.03, atol=0)
    assert abs(float(torch.corrcoef(noise.T)[0, 1])) < 0.04


def test_the_blob_has_the_width_of_the_noise():
    points = rotated_arcs(num_data=60_000, noise=0.065, seed=4, dtype=torch.float64)
    blob = points.x[30_000:40_000]
    torch.testing.assert_close(blob.std(0), torch.full((2,), 0.065), rtol=0.03, atol=0)


def test_points_are_a_function_of_the_seed():
    first, again, other = rotated_arcs(seed=5), rotated_arcs(seed=5), rotated_arcs(seed=6)
    assert torch.equal(first.x, again.x)
    assert not torch.isclose(first.x, other.x).any(1).all()


@pytest.mark.parametrize("num_data", [0, 3])
def test_a_number_that_has_no_halves_is_refused(num_data):
    with pytest.raises(DataError, match="even number"):
        rotated_arcs(num_data=num_data, seed=0)


@pytest.mark.parametrize("noise", [-0.1, math.inf])
def test_invalid_noise_is_refused(noise):
    with pytest.raises(DataError, match="Expected finite noise"):
        rotated_arcs(noise=noise, seed=0)


def test_polar_coordinates_lead_back():
    x = rotated_arcs(seed=7, dtype=torch.float64).x - 0.3  # into all four quadrants
    radius, angle = polar_coordinates(x).T
    torch.testing.assert_close(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), x)


def test_a_rotation_moves_the_angle_alone():
    x = rotated_arcs(seed=8, dtype=torch.float64).x
    turn = math.radians(20)
    rotated = x @ torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    away = x.norm(dim=1) > 0.3
    moved = (polar_coordinates(rotated) - polar_coordinates(x))[away]
    torch.testing.assert_close(moved, torch.tensor([0.0, turn]).expand_as(moved))
