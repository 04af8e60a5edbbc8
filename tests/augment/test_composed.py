import pytest
import torch
from torch import nn

from covary import Averaged
from covary.augment import Affine2d, Augmentation, Composed, Correlated, FiniteGroup
from covary.errors import ShapeError, StructureError
from covary.groups import act
from covary.networks import mlp
from covary.priors import hyperparameters_of, weights_of


def parts():
    return FiniteGroup("flips", [0.1, 0.2, 0.3]), Affine2d(("rotation", "shift_x"), initial_width=0.4)


def test_joins_names_and_widths():
    group, affine = parts()
    augment = Composed(group, affine)
    assert isinstance(augment, Augmentation)
    assert augment.names == ("flip_x", "flip_y", "half_turn", "rotation", "shift_x")
    assert augment.units == ("probability",) * 3 + ("radians", "half-widths")
    torch.testing.assert_close(augment.widths, torch.cat([group.widths, affine.widths]))
    assert weights_of(augment) == {}
    assert list(hyperparameters_of(augment, {})) == ["parts.0.logits", "parts.1.raw_widths"]


def test_samples_are_transformed_by_every_part_in_order(generator):
    group, affine = parts()
    augment, x = Composed(group, affine), torch.rand(3, 1, 6, 6, generator=generator)
    noise = augment.sample_noise(torch.arange(3), 4, seed=0)
    assert noise.shape == (3, 4, 3)
    samples = augment.transform(x, noise)
    for n in range(3):
        for s in range(4):
            flipped = act(x[n : n + 1], group.elements[int(noise[n, s, 0])])
            expected = affine.transform(flipped, noise[n : n + 1, s : s + 1, 1:])
            torch.testing.assert_close(samples[n, s], expected[0, 0])
    swapped = Composed(affine, group)
    assert not torch.allclose(swapped.transform(x, noise[..., [1, 2, 0]]), samples)


def test_correlations_are_block_diagonal_over_the_parts():
    group, affine = parts()
    assert Composed(group, affine).correlation is None
    mixed = Correlated(affine, torch.tensor([[0.3, 0.0], [0.4, 0.3]]))
    found = Composed(group, mixed).correlation
    torch.testing.assert_close(found[3:, 3:], mixed.correlation)
    torch.testing.assert_close(found[:3, :3], torch.eye(3))
    assert found[3, 4] > 0.5
    assert (found[:3, 3:] == 0).all()


def test_weights_are_those_of_the_parts(generator):
    group, affine = parts()
    augment = Composed(affine, group)
    noise = augment.sample_noise(torch.arange(3), 8, seed=0)
    torch.testing.assert_close(augment.sample_weights(noise), group.sample_weights(noise[..., 2:]))
    plain = Composed(affine)
    torch.testing.assert_close(plain.sample_weights(noise[..., :2]), torch.full((3, 8), 1 / 8))
    x, network = torch.rand(3, 1, 6, 6, generator=generator), mlp(36, 5, 2, generator=generator).double()
    rows = torch.stack([network(sample) for sample in augment.transform(x, noise)])
    expected = (group.sample_weights(noise[..., 2:]).unsqueeze(-1) * rows).sum(1)
    torch.testing.assert_close(Averaged(network, augment, 8)(x), expected)


def test_noise_depends_on_seed_and_index_alone():
    augment, index = Composed(*parts()), torch.arange(50)
    noise = augment.sample_noise(index, 4, seed=1)
    split = [augment.sample_noise(part, 4, seed=1) for part in index.flip(0).split(13)]
    assert torch.equal(torch.cat(split).flip(0), noise)
    assert not torch.equal(augment.sample_noise(index, 4, seed=2), noise)


def test_samples_of_different_parts_are_independent():
    """The mean of a product of two parts' noise converges for every datum; without a new order it would not."""
    first, second = Affine2d(("rotation",)), Affine2d(("shift_x",))
    index = torch.arange(50)
    joint = Composed(first, second).sample_noise(index, 1024, seed=0)
    assert joint.prod(-1).mean(1).abs().max() < 0.05
    in_step = first.sample_noise(index, 1024, seed=0) * second.sample_noise(index, 1024, seed=1)
    assert in_step.mean(1).abs().max() > 0.1


class FlatNoise(nn.Module):
    names, widths = ("nothing",), torch.zeros(1)

    def sample_noise(self, index, num_samples, *, seed):
        return torch.zeros(len(index), num_samples)

    def transform(self, x, noise):
        return x.unsqueeze(1).expand(-1, noise.shape[1], *x.shape[1:])


def test_errors():
    with pytest.raises(StructureError, match="without a common name, got rotation, rotation"):
        Composed(Affine2d(("rotation",)), Affine2d(("rotation",)))
    with pytest.raises(StructureError, match="one or more augmentations"):
        Composed()
    with pytest.raises(ShapeError, match=r"shape \(N, S, K_i\), got \(1, 1\)"):
        Composed(FlatNoise())
