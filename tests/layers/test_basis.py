"""The basis against its definition, its gradients against autograd, its initial anchors by counting."""

import pytest
import torch
from torch.func import jacrev

from covary.errors import StructureError
from covary.layers.basis import (
    anchor_gradients,
    basis,
    grid_axes,
    half_of,
    initial_values,
    omega_gradients,
    rectified_moments,
    spread_anchors,
)
from oracles.layers import bumps

SIZE = (3, 4)


def test_coordinates_are_pixels_from_the_center():
    assert [axis.tolist() for axis in grid_axes(3, 2)] == [[-1, 0, 1], [-0.5, 0.5]]


def test_basis_is_its_definition():
    anchors, omega = torch.randn(5, 2), torch.tensor([0.7])
    torch.testing.assert_close(basis(grid_axes(*SIZE), anchors, omega), bumps(anchors, 0.7, *SIZE))


def test_gradients_are_derivatives():
    axes, anchors, omega = grid_axes(*SIZE), torch.randn(5, 2), torch.tensor([0.7])
    by_anchor = jacrev(lambda z: basis(axes, z, omega))(anchors)  # (M, X, M, 2), diagonal in M
    expected = torch.stack([by_anchor[j, :, j].T for j in range(5)])
    torch.testing.assert_close(anchor_gradients(axes, anchors, omega), expected)
    by_omega = jacrev(lambda w: basis(axes, anchors, w))(omega)
    torch.testing.assert_close(omega_gradients(axes, anchors, omega), by_omega[..., 0])


@pytest.mark.parametrize(("size", "half"), [((3, 3), 5), ((32, 32), 512), ((1, 1), 1), ((4, 4), 8), ((5, 2), 5)])
def test_half_of_the_positions_make_a_checkerboard(size, half):
    assert half_of(*size) == half
    anchors = spread_anchors(*size, half)
    assert len(torch.unique(anchors, dim=0)) == half
    distances = torch.cdist(anchors, anchors) + 9 * torch.eye(half)
    assert float(distances.min()) > 1.4  # no two of them are neighbors


@pytest.mark.parametrize("number", [1, 3, 7, 9])
def test_any_number_of_anchors_are_on_different_positions(number):
    anchors = spread_anchors(3, 3, number)
    assert len(torch.unique(anchors, dim=0)) == number
    assert set(map(tuple, anchors.tolist())) <= {(r, c) for r in (-1.0, 0.0, 1.0) for c in (-1.0, 0.0, 1.0)}


@pytest.mark.parametrize("number", [0, 10])
def test_an_invalid_number_of_anchors_is_refused(number):
    with pytest.raises(StructureError, match=f"1 to 9 anchors .*got {number}"):
        spread_anchors(3, 3, number)


@pytest.mark.parametrize("size", [(3, 3), (6, 5)])
@pytest.mark.parametrize("smooth", [True, False])
def test_initial_filters_are_projected_white_noise_of_the_right_power(size, smooth):
    anchors = spread_anchors(*size, half_of(*size))
    phi, num_positions = bumps(anchors, 1.0, *size), size[0] * size[1]
    moments = rectified_moments(grid_axes(*size)) if smooth else torch.eye(num_positions)
    # values are linear in the noise, so that unit vectors in place of noise give a root of the filters' covariance
    root = initial_values(torch.eye(len(anchors)), phi, moments) @ phi
    covariance = root.T @ root
    power = sum(covariance[i, j] * moments[i, j] for i in range(num_positions) for j in range(num_positions))
    torch.testing.assert_close(power, torch.tensor(float(num_positions)))
    scale = covariance.trace() / len(anchors)
    torch.testing.assert_close(covariance @ covariance, scale * covariance)  # a projection, times a number


def test_moments_after_a_relu(generator):
    points = torch.tensor([[i, j] for i in (-1.0, 0.0, 1.0) for j in (-0.5, 0.5)])
    root = torch.linalg.cholesky(torch.exp(-torch.cdist(points, points).square() / 2))
    features = (torch.randn(400_000, 6, generator=generator) @ root.T).relu()
    sampled = features.T @ features / len(features) / 0.5
    torch.testing.assert_close(rectified_moments(grid_axes(3, 2)), sampled, rtol=0, atol=0.02)  # six standard errors
