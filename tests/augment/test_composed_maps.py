import pytest
import torch

from covary.augment import Affine2d, Composed, Correlated, FiniteGroup
from covary.augment.composed import affine_maps
from covary.groups.affine import warp_normalized


class Brightness(torch.nn.Module):
    """A user's own part, which moves nothing."""

    names = ("brightness",)

    def __init__(self):
        super().__init__()
        self.raw = torch.nn.Parameter(torch.tensor([0.1]))

    @property
    def widths(self):
        return self.raw.abs()

    def sample_noise(self, index, num_samples, *, seed):
        return torch.zeros(len(index), num_samples, 1)

    def transform(self, x, noise):
        return x[:, None] + self.widths * noise[..., None, None]


def affine():
    return Affine2d(("rotation", "shift_x"), initial_width=0.4)


@pytest.mark.parametrize(
    ("augment", "side"),
    [
        (affine(), 6),
        (Correlated(affine()), 6),
        (FiniteGroup("dihedral", 0.1), 8),
        (FiniteGroup("flips", 0.1), 5),
        (Composed(FiniteGroup("quarter_turns", 0.1), FiniteGroup(("identity", "flip_x"))), 8),
    ],
)
def test_maps_agree_with_the_transformed_images(augment, side, generator):
    augment = augment.double()
    x = torch.rand(3, 1, 8, side, generator=generator)
    noise = augment.sample_noise(torch.arange(3), 16, seed=0)
    torch.testing.assert_close(warp_normalized(x, affine_maps(augment, noise, 8, side)), augment.transform(x, noise))


@pytest.mark.parametrize("group_first", [True, False])
def test_parts_are_multiplied_in_their_order(group_first, generator):
    """A flip interpolates nothing, so that one resampling with the product gives the same as one after the other."""
    parts = (FiniteGroup("flips", 0.1).double(), affine().double())
    augment = Composed(*(parts if group_first else parts[::-1]))
    x = torch.rand(3, 1, 8, 6, generator=generator)
    noise = augment.sample_noise(torch.arange(3), 8, seed=0)
    torch.testing.assert_close(warp_normalized(x, affine_maps(augment, noise, 8, 6)), augment.transform(x, noise))


def test_a_custom_part_is_not_known_to_be_affine():
    augment = Composed(affine(), Brightness())
    assert affine_maps(augment, augment.sample_noise(torch.arange(2), 3, seed=0), 6, 6) is None
