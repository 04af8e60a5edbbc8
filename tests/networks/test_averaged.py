import pytest
import torch
from torch import nn

from covary._types import SampleAveraging, SampleWeighting
from covary.augment import Affine2d, Rotation2d
from covary.errors import DataError, ShapeError, StructureError
from covary.networks import Averaged, mlp
from covary.networks.averaged import _actions, _module
from covary.priors import Prior, hyperparameters_of, weights_of


class QuarterTurns(nn.Module):
    """The whole orbit of the four quarter turns, whatever the seed."""

    names = ()
    widths = torch.zeros(0)

    def sample_noise(self, index, num_samples, *, seed):
        return torch.arange(num_samples, dtype=torch.float64).expand(len(index), num_samples)

    def transform(self, x, noise):
        return torch.stack([torch.rot90(x, s, (-2, -1)) for s in range(noise.shape[1])], dim=1)


class Uneven(QuarterTurns):
    """Quarter turns that count the more the farther they turn."""

    def sample_weights(self, noise):
        return (1 + noise) / (1 + noise).sum(1, keepdim=True)


class WrongWeights(Uneven):
    def sample_weights(self, noise):
        return super().sample_weights(noise).T


class Wrong(QuarterTurns):
    def transform(self, x, noise):
        return super().transform(x, noise).transpose(0, 1)


def network(generator):
    return mlp(2, 8, 3, generator=generator).double()


def test_is_a_sample_averaging_network_whose_augmentation_is_no_weight(generator):
    averaged = Averaged(network(generator), Rotation2d(), 5)
    assert isinstance(averaged, SampleAveraging)
    assert isinstance(averaged, SampleWeighting)
    weights = weights_of(averaged)
    assert all(name.startswith("network.") for name in weights)
    assert list(hyperparameters_of(averaged, weights)) == ["augment.raw_widths"]
    assert Prior(averaged).num_params == 2 * 8 + 8 + 8 * 3 + 3
    assert "num_samples=5" in repr(averaged)


def test_is_the_mean_of_an_explicit_loop(generator):
    inner, augment = network(generator), Rotation2d(1.0)
    x, index = torch.randn(4, 2, generator=generator), torch.tensor([7, 2, 9, 4])
    noise = augment.sample_noise(index, 5, seed=3)
    expected = torch.stack(
        [sum(inner(augment.transform(x[n : n + 1], noise[n : n + 1])[:, s]) for s in range(5))[0] / 5 for n in range(4)]
    )
    torch.testing.assert_close(Averaged(inner, augment, 5)(x, index, seed=3), expected)


def test_weights_of_the_augmentation(generator):
    inner, x = mlp(36, 8, 3, generator=generator).double(), torch.rand(5, 1, 6, 6, generator=generator)
    averaged = Averaged(inner, Uneven(), 4)
    expected = sum((1 + s) / 10 * inner(torch.rot90(x, s, (-2, -1))) for s in range(4))
    torch.testing.assert_close(averaged(x), expected)
    torch.testing.assert_close(averaged.sample_weights(torch.arange(5))[2], torch.tensor([0.1, 0.2, 0.3, 0.4]))
    assert Averaged(inner, QuarterTurns(), 4).sample_weights(torch.arange(5)) is None
    with pytest.raises(ShapeError, match=r"sample_weights of shape \(5, 4\).*got \(4, 5\)"):
        Averaged(inner, WrongWeights(), 4)(x)


def test_outputs_do_not_depend_on_the_batch(generator):
    averaged, x = Averaged(network(generator), Rotation2d(1.0), 5), torch.randn(9, 2, generator=generator)
    whole = averaged(x)
    for part in torch.arange(9).flip(0).split(4):
        torch.testing.assert_close(averaged(x[part], part), whole[part])
    assert not torch.allclose(averaged(x, seed=1), whole)
    assert not torch.allclose(averaged(x, torch.arange(9) + 9), whole)


def test_inner_batch_is_batch_major(generator):
    seen = []
    inner = nn.Flatten()
    inner.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    x = torch.rand(2, 1, 3, 3, generator=generator)
    Averaged(inner, QuarterTurns(), 4)(x)
    assert torch.equal(seen[0][1 * 4 + 3], torch.rot90(x[1], 3, (-2, -1)))


def test_a_whole_orbit_makes_the_outputs_invariant(generator):
    inner = mlp(36, 8, 3, generator=generator).double()
    x = torch.rand(5, 1, 6, 6, generator=generator)
    turned = torch.rot90(x, 1, (-2, -1))
    averaged = Averaged(inner, QuarterTurns(), 4)
    torch.testing.assert_close(averaged(turned), averaged(x))
    # The controls: neither the network nor half an orbit is invariant.
    assert not torch.allclose(inner(turned), inner(x), rtol=1e-3)
    assert not torch.allclose(averaged.with_samples(1)(turned), averaged.with_samples(1)(x), rtol=1e-3)


def test_gradient_reaches_the_widths(generator):
    averaged = Averaged(mlp(36, 8, 3, generator=generator).double(), Affine2d(), 4)
    averaged(torch.rand(5, 1, 6, 6, generator=generator)).square().sum().backward()
    assert (averaged.augment.raw_widths.grad.abs() > 0).all()


def test_another_number_of_samples_shares_the_modules(generator):
    averaged = Averaged(nn.Sequential(network(generator), nn.Dropout()), Rotation2d(), 2).train()
    averaged.network[1].eval()
    other = averaged.with_samples(16)
    assert (other.num_samples, averaged.num_samples) == (16, 2)
    assert other.network is averaged.network
    assert other.augment is averaged.augment
    assert other.training
    assert not other.network[1].training


def test_an_output_action_has_an_inverse_and_keeps_the_shape(generator):
    class Shorter:
        def inverse(self, outputs, augment, noise, input_shape):
            return outputs[..., :1]

    with pytest.raises(StructureError, match="with a method `inverse`, got 3"):
        _actions((3,))
    averaged = Averaged(network(generator), Rotation2d(), 4, output_action=Shorter())
    assert averaged.with_samples(2).moves_outputs
    with pytest.raises(ShapeError, match=r"outputs of shape \(5, 4, 3\) from the output action.*got \(5, 4, 1\)"):
        averaged(torch.randn(5, 2, generator=generator))


def test_bad_input(generator):
    x = torch.rand(3, 1, 4, 4, generator=generator)
    with pytest.raises(DataError, match="num_samples to be a whole number of 1 or more, got 0"):
        Averaged(nn.Flatten(), QuarterTurns(), 0)
    with pytest.raises(ShapeError, match=r"index of shape \(3,\).*got \(2,\)"):
        Averaged(nn.Flatten(), QuarterTurns(), 4)(x, torch.arange(2))
    with pytest.raises(ShapeError, match=r"samples of shape \(3, 4, ...\).*got \(4, 3, 1, 4, 4\)"):
        Averaged(nn.Flatten(), Wrong(), 4)(x)
    with pytest.raises(ShapeError, match=r"shape \(12, C\).*got \(12,\)"):
        Averaged(nn.Sequential(nn.Flatten(), nn.Linear(16, 1), nn.Flatten(0)), QuarterTurns(), 4)(x)
    assert Averaged(nn.Identity(), QuarterTurns(), 4)(x).shape == (3, 1, 4, 4), "outputs at positions keep them"
    with pytest.raises(ShapeError, match=r"shape \(12, C\).*got \(6, 32\)"):
        Averaged(nn.Sequential(nn.Flatten(), nn.Unflatten(0, (6, 2)), nn.Flatten()), QuarterTurns(), 4)(x)


@pytest.mark.parametrize("augment", [Affine2d, "affine", None])
def test_an_augmentation_is_an_instance(augment):
    with pytest.raises(StructureError, match=r"Expected an augmentation, such as covary.augment.Affine2d\(\), got"):
        _module(augment)


def test_outputs_are_one_tensor():
    """Recurrent layers return pairs, the networks of Hugging Face dictionaries."""
    with pytest.raises(ShapeError, match=r"returns one tensor of outputs, got a tuple.*network\(x\).logits"):
        Averaged(nn.LSTM(2, 3), Rotation2d(), 4)(torch.zeros(5, 2))
