"""Generators that are learned themselves."""

import pytest
import torch

from covary.augment import Affine2d, LearnedGenerators, Rotation2d
from covary.errors import DataError, ShapeError, StructureError

ROTATION = [[[0.0, -1.0], [1.0, 0.0]]]


def test_a_rotation_is_one(generator):
    x, noise = torch.rand(3, 2, generator=generator), 2 * torch.rand(3, 4, 1, generator=generator) - 1
    augment = LearnedGenerators(1, dim=2)
    augment.generators.data = 0.8 * torch.tensor(ROTATION)
    torch.testing.assert_close(augment.widths, torch.tensor([0.8]))
    expected = Rotation2d(0.8).transform(x, noise)
    torch.testing.assert_close(augment.transform(x, noise), expected)
    torch.testing.assert_close(augment.transform(x[:, None], noise).squeeze(2), expected)


def test_generators_of_images_are_those_of_affine_transforms(generator):
    x, noise = torch.rand(3, 1, 5, 7, generator=generator), 2 * torch.rand(3, 4, 2, generator=generator) - 1
    affine = Affine2d(("rotation", "shift_x"), initial_width=(0.6, 0.2))
    augment = LearnedGenerators(2)
    augment.generators.data = affine.generators[:, :2] * affine.widths.detach()[:, None, None]
    torch.testing.assert_close(augment.transform(x, noise), affine.transform(x, noise))


def test_directions_are_functions_of_the_seed():
    first, again, other = (LearnedGenerators(2, dim=3, initial_width=0.2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.generators, again.generators)
    assert not torch.equal(first.generators, other.generators)
    torch.testing.assert_close(first.widths, torch.full((2,), 0.2))


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"data \(N, 3\) or \(N, P, 3\), got \(2, 4\)"):
        LearnedGenerators(1, dim=3).transform(torch.rand(2, 4), torch.zeros(2, 1, 1))
    with pytest.raises(StructureError, match="one generator or more"):
        LearnedGenerators(0)
    with pytest.raises(DataError, match="initial_width above 0"):
        LearnedGenerators(1, initial_width=0.0)
