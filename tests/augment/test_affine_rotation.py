import math

import pytest
import torch

from covary.augment import Augmentation, Rotation2d
from covary.errors import DataError, ShapeError, StructureError
from covary.priors import weights_of


def test_is_an_augmentation():
    augment = Rotation2d()
    assert isinstance(augment, Augmentation)
    assert augment.names == ("rotation",)
    torch.testing.assert_close(augment.widths, torch.tensor([0.05]))
    assert weights_of(augment) == {}


def test_rotated_points_are_complex_products(generator):
    x, augment = torch.randn(5, 2, generator=generator), Rotation2d(2.0)
    noise = augment.sample_noise(torch.arange(5), 7, seed=0)
    turned = torch.view_as_complex(x)[:, None] * torch.exp(2j * noise[..., 0])
    torch.testing.assert_close(augment.transform(x, noise), torch.view_as_real(turned))


def test_counter_clockwise():
    augment = Rotation2d(math.pi / 2)
    turned = augment.transform(torch.tensor([[1.0, 0.0]]), torch.ones(1, 1, 1))
    torch.testing.assert_close(turned[0, 0], torch.tensor([0.0, 1.0]))


def test_noise_depends_on_seed_and_index_alone():
    augment, index = Rotation2d(), torch.arange(100)
    noise = augment.sample_noise(index, 4, seed=1)
    assert noise.shape == (100, 4, 1)
    split = [augment.sample_noise(part, 4, seed=1) for part in index.flip(0).split(33)]
    assert torch.equal(torch.cat(split).flip(0), noise)
    assert not torch.equal(augment.sample_noise(index, 4, seed=2), noise)


def test_samplers():
    index = torch.arange(50)
    assert Rotation2d(sampler="random").sample_noise(index, 64, seed=0).mean(1).abs().max() > 0.1
    assert Rotation2d(sampler="sobol").sample_noise(index, 64, seed=0).mean(1).abs().max() < 0.1
    with pytest.raises(StructureError, match="got 'grid'"):
        Rotation2d(sampler="grid")


@pytest.mark.parametrize("width", [1e-3, 0.05, 2.0])
def test_gradient_is_the_central_difference(width, generator):
    x, augment = torch.randn(5, 2, generator=generator), Rotation2d(width)
    noise = augment.sample_noise(torch.arange(5), 3, seed=0)
    assert torch.autograd.gradcheck(lambda _: augment.transform(x, noise), augment.raw_widths)


def test_identity_at_width_zero(generator):
    x, augment = torch.randn(5, 2, generator=generator), Rotation2d(0.0)
    samples = augment.transform(x, augment.sample_noise(torch.arange(5), 3, seed=0))
    assert torch.equal(samples, x[:, None].expand(5, 3, 2))


def test_bad_input():
    augment = Rotation2d()
    with pytest.raises(ShapeError, match=r"points \(N, 2\), got \(4, 3\)"):
        augment.transform(torch.zeros(4, 3), augment.sample_noise(torch.arange(4), 2, seed=0))
    with pytest.raises(DataError, match="below π"):
        Rotation2d(3.2)
