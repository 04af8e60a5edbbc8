"""Images of another size, and moments by their definition."""

import pytest
import torch

from covary.data import channel_moments, load, resized
from covary.errors import DataError
from data.test_transforms_quadrants import images


def bilinear(image: torch.Tensor, side: int) -> torch.Tensor:
    """One image resampled pixel by pixel: centers lie at half-integers, outside is the nearest pixel."""
    size = image.shape[-1]
    found = torch.zeros(len(image), side, side, dtype=image.dtype)
    for i in range(side):
        for j in range(side):
            places = [min(max((k + 0.5) * size / side - 0.5, 0.0), size - 1.0) for k in (i, j)]
            low = [min(int(place), size - 2) for place in places]
            part = [place - start for place, start in zip(places, low, strict=True)]
            for down in (0, 1):
                for across in (0, 1):
                    share = (part[0] if down else 1 - part[0]) * (part[1] if across else 1 - part[1])
                    found[:, i, j] += share * image[:, low[0] + down, low[1] + across]
    return found


@pytest.mark.parametrize("side", [5, 7, 12])
def test_images_are_resampled_bilinearly(side):
    made = resized(images(8, 4), side)
    for before, after in zip(images(8, 4).x_train, made.x_train, strict=True):
        torch.testing.assert_close(after, bilinear(before, side))
    assert made.x_test.shape == (4, 2, side, side)
    assert made.name == f"noise, {side}×{side}"


def test_digits_become_32_pixels_wide():
    assert resized(load("mnist-mini"), 32).x_train.shape == (5000, 1, 32, 32)


def test_the_size_that_is_there_stays():
    given = images(8, 4)
    assert resized(given, 6).x_train is given.x_train


def test_without_test_images_there_are_none_afterwards():
    bare = images(8, 4)._replace(x_test=torch.zeros(0, 2, 6, 6, dtype=torch.float32))
    assert resized(bare, 9).x_test.shape == (0, 2, 9, 9)


@pytest.mark.parametrize(
    ("dataset", "side", "expected"),
    [
        (images(4, 4), 3, "at least 4 pixels, got 3"),
        (images(4, 4, side=3), 8, "side of at least 4 pixels for a new size, got 3 in noise"),
        (
            images(4, 4)._replace(x_train=torch.zeros(4, 2, 5, 6, dtype=torch.float32)),
            8,
            "5×6 pixels in noise. Pad or crop",
        ),
    ],
)
def test_what_cannot_be_resampled_is_refused(dataset, side, expected):
    with pytest.raises(DataError, match=expected):
        resized(dataset, side)


def test_moments_are_those_of_all_pixels_of_a_channel():
    x = images(50).x_train
    means, deviations = channel_moments(x)
    for channel in range(2):
        values = torch.tensor([float(v) for v in x[:, channel].flatten()])
        torch.testing.assert_close(means[channel], values.mean())
        torch.testing.assert_close(deviations[channel], (values - values.mean()).square().mean().sqrt())
    assert not torch.isclose(means[0], means[1], rtol=1e-6)


def test_a_constant_channel_is_refused():
    x = images(4).x_train.clone()
    x[:, 1] = 0.5
    with pytest.raises(DataError, match="constant channel 1 of the training data"):
        channel_moments(x)


def test_images_beyond_the_memory_of_the_machine_are_refused_before_they_are_made():
    with pytest.raises(DataError, match="noise at 1000000×1000000 pixels needs .* GiB of memory"):
        resized(images(4, 4), 1_000_000)
