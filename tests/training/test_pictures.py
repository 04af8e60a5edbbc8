"""The images that a report shows."""

import torch

from covary.augment import Affine2d, Composed, FiniteGroup
from covary.batches import IndexedBatch
from covary.training.pictures import NUM_PICTURES, NUM_VERSIONS, pictures_of


def batch(generator, channels=1):
    x = torch.rand(9, channels, 6, 6, generator=generator)
    return IndexedBatch(x, torch.arange(9) % 2, torch.arange(9))


def versions(found):
    """Bytes (n, 1 + s, ...), the image as it is first."""
    return torch.tensor(list(found.values()), dtype=torch.uint8).reshape(found.shape)


def test_what_has_no_probability_is_not_shown(generator):
    still = versions(pictures_of(FiniteGroup("flips", 1e-9), batch(generator), 0))
    assert still.shape == (NUM_PICTURES, 1 + NUM_VERSIONS, 1, 6, 6)
    assert (still == still[:, :1]).all()
    moved = versions(pictures_of(FiniteGroup("flips", 0.25), batch(generator), 0))
    assert (moved != moved[:, :1]).any()


def test_flips_before_affine_transforms_keep_their_maps(generator):
    found = pictures_of(Composed(FiniteGroup("flips"), Affine2d()), batch(generator), 0)
    assert [len(matrix) for matrix in found.matrices] == [9] * NUM_VERSIONS


def test_data_that_are_no_images_give_none(generator):
    assert pictures_of(Affine2d(), batch(generator, channels=2), 0) is None
