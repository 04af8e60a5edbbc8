import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from covary.augment import Affine2d, Composed, FiniteGroup, RandomTransform
from covary.errors import DataError, ShapeError
from covary.groups import act


def seed_of(generator):
    """The seed that the next call draws from a generator in this state."""
    return int(torch.randint(2**63 - 1, (), generator=generator))


def expected(augment, images, seed):
    return augment.transform(images, augment.sample_noise(torch.arange(len(images)), 1, seed=seed))[:, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transforms_are_those_of_the_distribution(dtype, generator):
    augment, images = Affine2d(initial_width=0.3), torch.rand(4, 3, 9, 8, generator=generator).to(dtype)
    step = RandomTransform(augment, torch.Generator().manual_seed(7))
    twin = torch.Generator().manual_seed(7)
    first, second = step(images), step(images)
    assert first.dtype == dtype
    torch.testing.assert_close(first, expected(augment, images, seed_of(twin)), rtol=0, atol=0)
    torch.testing.assert_close(second, expected(augment, images, seed_of(twin)), rtol=0, atol=0)
    assert not torch.equal(first, second)
    assert not first.requires_grad


def test_bytes_are_rounded(generator):
    augment = Affine2d(initial_width=0.3)
    images = torch.randint(0, 256, (4, 1, 9, 8), generator=generator, dtype=torch.uint8)
    moved = RandomTransform(augment, torch.Generator().manual_seed(7))(images)
    exact = 255 * expected(augment, images / 255, seed_of(torch.Generator().manual_seed(7)))
    assert moved.dtype == torch.uint8
    assert (moved - exact).abs().max() <= 0.5 + 1e-9
    still = RandomTransform(Affine2d(initial_width=0.0))(images)
    assert torch.equal(still, images)


def test_one_image_is_a_batch_of_one(generator):
    image = torch.rand(3, 6, 7, generator=generator)
    alone, batch = (RandomTransform(Affine2d(), torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(alone(image), batch(image[None])[0])
    with pytest.raises(ShapeError, match=r"\(C, H, W\) or \(N, C, H, W\), got \(6, 7\)"):
        alone(image[0])


def test_default_randomness_is_the_global_generator(generator):
    images, step = torch.rand(2, 1, 6, 6, generator=generator), RandomTransform(Affine2d())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first, second = step(images), step(images)
        torch.manual_seed(3)
        again = step(images)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_elements_are_drawn_with_their_probabilities(generator):
    image = torch.rand(1, 4, 4, generator=generator)
    group = FiniteGroup("flips", [0.5, 0.1, 0.15])
    moved = RandomTransform(group, generator)(image.expand(4000, 1, 4, 4))
    for name, probability in zip(group.elements, group.probabilities.tolist(), strict=True):
        share = (moved == act(image, name)).flatten(1).all(1).double().mean().item()
        assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / 4000) ** 0.5)


def test_keeps_a_frozen_copy(generator):
    augment, images = Affine2d(), torch.rand(2, 1, 6, 6, generator=generator)
    step = RandomTransform(augment, torch.Generator().manual_seed(1))
    assert not any(p.requires_grad for p in step.parameters())
    assert augment.raw_widths.requires_grad
    before = RandomTransform(augment, torch.Generator().manual_seed(1))(images)
    augment.raw_widths.data.fill_(1.0)
    assert torch.equal(step(images), before)


def test_inside_a_pipeline(generator):
    augment = Composed(FiniteGroup("flips"), Affine2d())
    pipeline = nn.Sequential(RandomTransform(augment, generator), nn.Flatten())
    assert pipeline(torch.rand(2, 1, 6, 6, generator=generator)).shape == (2, 36)


def test_inside_kornia(generator):
    kornia = pytest.importorskip("kornia", reason="needs kornia, an optional dependency")
    augment, images = Affine2d(initial_width=0.3), torch.rand(4, 3, 8, 8, generator=generator)
    step = RandomTransform(augment, torch.Generator().manual_seed(7))
    sequence = kornia.augmentation.AugmentationSequential(step, data_keys=["input"])
    moved = sequence(images)
    exact = expected(augment, images, seed_of(torch.Generator().manual_seed(7)))
    torch.testing.assert_close(moved, exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pictures_stay_pictures(mode, generator):
    picture = Image.effect_noise((8, 9), 60).convert(mode)
    bytes_first = torch.from_numpy(np.array(picture).reshape(9, 8, -1)).permute(2, 0, 1)
    steps = [RandomTransform(Affine2d(initial_width=0.3), torch.Generator().manual_seed(5)) for _ in range(2)]
    moved = steps[0](picture)
    assert (moved.mode, moved.size) == (mode, picture.size)
    expected_bytes = steps[1](bytes_first).permute(1, 2, 0).numpy()
    assert np.array_equal(np.array(moved).reshape(9, 8, -1), expected_bytes)
    with pytest.raises(DataError, match="mode CMYK"):
        steps[0](picture.convert("CMYK"))
