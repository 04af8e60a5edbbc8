import pytest
import torch

from covary.augment import Affine2d, Composed, FiniteGroup
from covary.augment.sampling import drawn_noise


def test_samples_without_weights_are_those_of_the_distribution():
    augment, index = Affine2d(initial_width=0.3), torch.arange(5)
    assert torch.equal(drawn_noise(augment, index, 4, seed=3), augment.sample_noise(index, 4, seed=3))


@pytest.mark.parametrize("num_samples", [1, 7])
def test_elements_are_drawn_with_their_probabilities(num_samples):
    group, num_data = FiniteGroup("flips", [0.5, 0.1, 1e-9]), 2000
    noise = drawn_noise(group, torch.arange(num_data), num_samples, seed=1)
    assert noise.shape == (num_data, num_samples, 1)
    shares = torch.bincount(noise.long().flatten(), minlength=4) / noise.numel()
    errors = (group.probabilities * (1 - group.probabilities) / noise.numel()).sqrt()
    assert ((shares - group.probabilities).abs() <= 4 * errors).all()
    assert shares[3] == 0


def test_samples_of_one_datum_differ_in_every_other_part():
    augment = Composed(FiniteGroup("flips", 1e-9), Affine2d())
    noise = drawn_noise(augment, torch.arange(20), 7, seed=0)
    assert (noise[..., 0] == 0).all()
    assert all(len(datum[:, 1].unique()) == 7 for datum in noise)
