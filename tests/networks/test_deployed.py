import pytest
import torch
from torch import nn

import covary
from covary.augment import Affine2d, ColorJitter, Composed, FiniteGroup
from covary.errors import StructureError
from covary.networks import Averaged, Deployed, Standardized, cnn, mlp

AUGMENTS = {
    "affine": lambda: Affine2d(initial_width=0.2),
    "flips": lambda: FiniteGroup("flips", 0.2),
    "all": lambda: Composed(
        FiniteGroup(("identity", "flip_x"), 0.3), Affine2d(("rotation",)), ColorJitter(("contrast",))
    ),
}


@pytest.fixture(autouse=True)
def _without_shape_checks(monkeypatch):
    """Sizes are symbols while a program is traced, which jaxtyping would compare with numbers."""
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def images(number, generator):
    return torch.rand(number, 1, 8, 8, generator=generator)


@pytest.mark.parametrize("augment", AUGMENTS)
def test_noise_is_that_of_a_datum_of_index_zero(augment, generator):
    network, x = Averaged(mlp(64, 5, 3), AUGMENTS[augment](), 8), images(4, generator)
    deployed = Deployed(network, seed=3)
    expected = network(x, torch.zeros(4, dtype=torch.int64), seed=3)
    torch.testing.assert_close(deployed(x), expected)
    if augment != "flips":  # with every element as often as any other, noise does not matter
        assert not torch.allclose(network(x, seed=3), expected), "other data have other noise"
    torch.testing.assert_close(deployed(x[2:3]), expected[2:3])


def test_it_is_a_frozen_copy(generator):
    network = Averaged(mlp(64, 5, 3), Affine2d(initial_width=0.2), 4)
    deployed, x = Deployed(network, 16), images(2, generator)
    before = deployed(x)
    assert not any(parameter.requires_grad for parameter in deployed.parameters())
    network.augment.raw_widths.data.fill_(1.0)
    torch.testing.assert_close(deployed(x), before)
    expected = Averaged(network.network, Affine2d(initial_width=0.2), 16)(x, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(before, expected)
    assert len(set(network.augment.sample_noise(torch.arange(2), 4, seed=0).flatten().tolist())) > 24


def test_networks_without_an_augmentation(generator):
    network, x = (
        Standardized(cnn(), torch.tensor([0.1]), torch.tensor([0.3])),
        torch.rand(2, 1, 28, 28, generator=generator),
    )
    torch.testing.assert_close(Deployed(network)(x), network(x))


def test_program_for_any_number_of_data(generator):
    network = Standardized(mlp(64, 5, 3), torch.tensor([0.1]), torch.tensor([0.3]))
    deployed = Deployed(Averaged(network, AUGMENTS["all"](), 8))
    program = deployed.program(images(1, generator)).module()
    for number in (1, 2, 7):
        x = images(number, generator)
        torch.testing.assert_close(program(x), deployed(x))


def test_outputs_that_move_back_are_part_of_the_program(generator):
    action = covary.augment.PermutedOutputs({"flip_x": (1, 0, 2)})
    network = Averaged(mlp(64, 5, 3), FiniteGroup(("identity", "flip_x"), 0.3), 4, output_action=action)
    deployed, x = Deployed(network), images(3, generator)
    torch.testing.assert_close(deployed(x), network(x, torch.zeros(3, dtype=torch.int64)))
    torch.testing.assert_close(deployed.program(x).module()(x), deployed(x))


def test_a_network_that_cannot_be_traced_is_one_line():
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(StructureError, match="cannot be exported by torch.export") as caught:
        Deployed(Branching()).program(torch.rand(2, 3))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("width", [0.001, 0.1, 0.25])
def test_samples_of_a_group_count_as_much_as_equal_ones(width, generator):
    """A group that is nearly the identity alone must not leave one fixed transform of the rest for all data."""

    def augment():
        return Composed(
            FiniteGroup(("identity", "flip_x", "flip_y", "half_turn"), width),
            Affine2d(("rotation",), initial_width=0.5),
        )

    x = images(64, generator)
    network = Averaged(mlp(64, 5, 3, generator=generator), augment(), 4)
    whole = network.with_samples(512)(x, torch.zeros(64, dtype=torch.int64))

    def error(outputs):
        return (outputs - whole).norm() / whole.norm()

    drawn = torch.stack([error(network(x, torch.zeros(64, dtype=torch.int64), seed=k)) for k in range(20)]).mean()
    fixed = torch.stack([error(Deployed(network, seed=k)(x)) for k in range(20)]).mean()
    assert fixed < 1.05 * drawn
    if width == 0.001:
        assert fixed < 0.5 * drawn
    assert Deployed(network).network.num_samples <= 24, "what hardly counts is left out"
