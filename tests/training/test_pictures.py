"""The images that a report shows."""

import torch

from covary.augment import Affine2d, Composed, FiniteGroup, PerClass
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


def test_images_are_moved_by_the_widths_of_their_own_class(generator):
    augment = PerClass(Affine2d(("rotation",)), ("still", "turned"))
    for part, width in zip(augment.parts, (1e-9, 1.0), strict=True):
        torch.nn.init.constant_(part.raw_widths, width)
    found = versions(pictures_of(augment, batch(generator), 0))
    assert found.shape == (NUM_PICTURES, 1 + NUM_VERSIONS, 1, 6, 6)
    moved = (found != found[:, :1]).flatten(1).any(1)
    assert moved.tolist() == [False, True] * 3
    unlabeled = versions(pictures_of(augment, batch(generator)._replace(y=torch.rand(9, 2)), 0))
    assert (unlabeled == unlabeled[:, :1]).all(), "by the widths of the first class"


def test_data_that_are_no_images_give_none(generator):
    assert pictures_of(Affine2d(), batch(generator, channels=2), 0) is None
