"""TrivialAugment and RandAugment: what they choose, how strongly, and from which numbers."""

import pytest
import torch

import covary
from covary.augment import RandAugment, TrivialAugment
from covary.augment.automatic import NARROW, WIDE, as_transform
from covary.errors import DataError

NAMES = {
    *("identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color", "contrast"),
    *("sharpness", "posterize", "solarize", "auto_contrast", "equalize"),
}


def test_the_operations_are_those_of_the_papers_and_of_kornia():
    """kornia leaves out the identity and, in TrivialAugment, color; its RandAugment adds two others."""
    assert set(WIDE) == set(NARROW) == NAMES
    auto = pytest.importorskip("kornia.augmentation.auto", reason="kornia is not installed")
    trivial = {step[0][0] for step in auto.trivial_augment.trivial_augment.default_policy}
    rand = {step[0][0] for step in auto.rand_augment.rand_augment.default_policy}
    assert NAMES - trivial == {"identity", "color"}
    assert trivial < NAMES
    assert rand - NAMES == {"invert", "solarize_add"}
    assert NAMES - rand == {"identity"}


@pytest.mark.parametrize("augment", [TrivialAugment(), RandAugment()], ids=["trivial", "rand"])
def test_samples_are_functions_of_the_seed_and_the_index(augment):
    torch.manual_seed(0)
    x, index = torch.rand(6, 3, 9, 9), torch.tensor([4, 8, 15, 16, 23, 42])
    whole = augment.transform(x, augment.sample_noise(index, 3, seed=7))
    part = augment.transform(x[2:4], augment.sample_noise(index[2:4], 3, seed=7))
    torch.testing.assert_close(whole[2:4], part)
    assert whole.shape == (6, 3, 3, 9, 9)
    assert 0 <= float(whole.min()) <= float(whole.max()) <= 1
    assert not torch.equal(whole, augment.transform(x, augment.sample_noise(index, 3, seed=8)))
    torch.testing.assert_close(
        as_transform(augment)(x, index, 7), augment.transform(x, augment.sample_noise(index, 1, seed=7))[:, 0]
    )


def test_each_operation_is_chosen_as_often_and_each_strength():
    noise = TrivialAugment().sample_noise(torch.arange(28_000), 1, seed=0)[:, 0, 0]
    counts = (noise[:, 0] * 14).long().bincount(minlength=14)
    assert int((counts - 2_000).abs().max()) < 200  # five standard deviations are 215
    strengths = TrivialAugment().strength(noise[:, 1])
    torch.testing.assert_close(strengths.unique(), torch.arange(31) / 30)
    assert RandAugment(magnitude=15).strength(noise[:, 1]).unique().tolist() == [0.5]


def test_the_ranges_are_those_of_the_papers():
    """The amounts at the largest strength, on images of side 64."""
    largest = torch.ones(1)
    wide = {name: float(choice.amount(largest, 64)) for name, choice in WIDE.items()}
    narrow = {name: float(choice.amount(largest, 64)) for name, choice in NARROW.items()}
    assert (wide["rotate"], wide["shear_x"], wide["translate_y"]) == pytest.approx((135, 0.99, 32))
    assert (wide["posterize"], wide["solarize"], wide["contrast"]) == pytest.approx((2, 0, 1.99))
    assert (narrow["rotate"], narrow["shear_y"], narrow["translate_x"]) == pytest.approx((30, 0.3, 150 / 331 * 64))
    assert (narrow["posterize"], narrow["solarize"], narrow["color"]) == pytest.approx((4, 0, 1.9))
    none = {name: choice.amount(torch.zeros(1), 64) for name, choice in WIDE.items()}
    assert (float(none["posterize"]), float(none["solarize"]), float(none["rotate"])) == (8, 1, 0)


def test_a_transform_is_one_operation_or_two():
    """A noise that names an operation gives what the operation gives."""
    x, order = torch.rand(1, 1, 8, 8), list(WIDE)
    number = (order.index("rotate") + 0.5) / 14
    noise = torch.tensor([number, 1 - 1e-9, 0.9])[None, None, None]
    torch.testing.assert_close(
        TrivialAugment().transform(x, noise)[:, 0], WIDE["rotate"].apply(x, torch.tensor([-135.0]))
    )
    flat = torch.tensor([[number, 0.0, 0.1], [(order.index("solarize") + 0.5) / 14, 0.0, 0.0]])[None, None]
    turned = NARROW["rotate"].apply(x, torch.tensor([30.0]))
    torch.testing.assert_close(
        RandAugment(magnitude=30).transform(x, flat)[:, 0], NARROW["solarize"].apply(turned, torch.tensor([0.0]))
    )


def test_they_average_a_network_and_refuse_other_ranges():
    network = covary.Averaged(covary.networks.mlp(64, 5, 3), TrivialAugment(), 4)
    assert network(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    with pytest.raises(DataError, match="values from 0 to 1, got .* from -1 to"):
        network(torch.full((1, 1, 8, 8), -1.0))
    with pytest.raises(DataError, match="magnitude from 0 to 30"):
        RandAugment(magnitude=31)
