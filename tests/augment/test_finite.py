import pytest
import torch

from covary import Averaged
from covary.augment import Augmentation, FiniteGroup, WeightedAugmentation
from covary.errors import DataError, ShapeError, StructureError
from covary.groups import act
from covary.networks import mlp
from covary.priors import weights_of


def images(generator, num=4):
    return torch.rand(num, 1, 5, 5, generator=generator)


def test_is_a_weighted_augmentation_with_probabilities():
    augment = FiniteGroup("flips", 0.1)
    assert isinstance(augment, Augmentation)
    assert isinstance(augment, WeightedAugmentation)
    assert augment.names == ("flip_x", "flip_y", "half_turn")
    assert augment.units == ("probability",) * 3
    torch.testing.assert_close(augment.widths, torch.full((3,), 0.1))
    torch.testing.assert_close(augment.probabilities[0], torch.tensor(0.7))
    assert weights_of(augment) == {}
    assert "flip_x=0.1" in repr(augment)


@pytest.mark.parametrize("num_samples", [4, 8])
def test_average_is_exact(num_samples, generator):
    probabilities = {"flip_x": 0.3, "flip_y": 0.05, "half_turn": 0.2}
    x, network = images(generator), mlp(25, 6, 3, generator=generator).double()
    expected = 0.45 * network(x) + sum(p * network(act(x, name)) for name, p in probabilities.items())
    averaged = Averaged(network, FiniteGroup("flips", probabilities), num_samples)
    torch.testing.assert_close(averaged(x, seed=5), expected)
    assert not torch.allclose(averaged.with_samples(num_samples - 1)(x), expected)


@pytest.mark.parametrize("group", ["flips", "quarter_turns", "dihedral"])
def test_equal_probabilities_over_the_whole_orbit_make_the_outputs_invariant(group, generator):
    x, network = images(generator), mlp(25, 6, 3, generator=generator).double()
    size = len(FiniteGroup(group, 0.01).elements)
    even = Averaged(network, FiniteGroup(group, 1 / size), size)
    uneven = Averaged(network, FiniteGroup(group, 0.05), size)
    for name in even.augment.names:
        torch.testing.assert_close(even(act(x, name)), even(x))
        # The controls: neither unequal probabilities nor a part of the orbit will do.
        assert not torch.allclose(uneven(act(x, name)), uneven(x), rtol=1e-3)
        assert not torch.allclose(even.with_samples(1)(act(x, name)), even.with_samples(1)(x), rtol=1e-3)


def test_samples_cycle_through_all_elements_in_a_random_order_per_datum():
    augment, index = FiniteGroup("dihedral"), torch.arange(400)
    noise = augment.sample_noise(index, 16, seed=0)
    assert noise.shape == (400, 16, 1)
    numbers = noise[..., 0].long()
    assert torch.equal(numbers[:, :8].sort(1).values, torch.arange(8).expand(400, 8))
    assert torch.equal(numbers[:, 8:], numbers[:, :8])
    assert (numbers[:, 0].bincount(minlength=8) > 30).all()
    split = [augment.sample_noise(part, 16, seed=0) for part in index.flip(0).split(99)]
    assert torch.equal(torch.cat(split).flip(0), noise)
    assert torch.equal(augment.sample_noise(index, 3, seed=0), noise[:, :3])
    assert not torch.equal(augment.sample_noise(index, 16, seed=1), noise)


@pytest.mark.parametrize("num_samples", [3, 4, 6])
def test_weights_sum_to_one_and_follow_the_probabilities(num_samples):
    augment = FiniteGroup("quarter_turns", [0.1, 0.2, 0.3])
    noise = augment.sample_noise(torch.arange(5), num_samples, seed=0)
    weights = augment.sample_weights(noise)
    torch.testing.assert_close(weights.sum(1), torch.ones(5))
    chosen = augment.probabilities[noise[..., 0].long()]
    torch.testing.assert_close(weights[:, 0] / weights[:, 1], chosen[:, 0] / chosen[:, 1])
    assert torch.autograd.gradcheck(lambda _: augment.sample_weights(noise), augment.logits)


@pytest.mark.parametrize(
    ("elements", "probability", "error", "message"),
    [
        ("spins", 0.05, StructureError, "one of flips, quarter_turns, dihedral, .*got 'spins'"),
        (("identity",), 0.05, StructureError, "two or more different elements"),
        (("identity", "flip_x", "flip_y"), 0.05, StructureError, "without their products half_turn"),
        (("identity", "twist"), 0.05, StructureError, "symmetry of the square, got 'twist'"),
        ("flips", 0.0, DataError, "above 0"),
        ("flips", 0.4, DataError, "a sum below 1"),
        ("flips", {"flip_x": 0.1}, StructureError, "each of flip_x, flip_y, half_turn, got flip_x"),
    ],
)
def test_bad_groups(elements, probability, error, message):
    with pytest.raises(error, match=message):
        FiniteGroup(elements, probability)


def test_bad_images():
    augment = FiniteGroup("quarter_turns")
    noise = augment.sample_noise(torch.arange(2), 4, seed=0)
    with pytest.raises(ShapeError, match="Expected square images"):
        augment.transform(torch.zeros(2, 1, 4, 5), noise)
    with pytest.raises(ShapeError, match=r"images \(N, C, H, W\), got \(2, 25\)"):
        augment.transform(torch.zeros(2, 25), noise)
