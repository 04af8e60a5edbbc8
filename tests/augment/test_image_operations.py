"""Each operation of RandAugment and TrivialAugment against a plain definition: Pillow's, or whole pixels moved."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from covary.augment import image_operations as operations

LEVEL = 1 / 255


def images(num_channels: int = 3) -> torch.Tensor:
    """Two images of whole levels, with a range and a distribution that operations change."""
    torch.manual_seed(0)
    values = (torch.rand(2, num_channels, 24, 20) ** 2 * 180 + 20).round()
    return values / 255


def as_pillow(image: torch.Tensor) -> Image.Image:
    values = (image * 255).round().byte().permute(1, 2, 0).numpy()
    return Image.fromarray(values if values.shape[2] == 3 else values[..., 0])


def from_pillow(image: Image.Image) -> torch.Tensor:
    values = torch.from_numpy(np.array(image)).double() / 255
    return values.permute(2, 0, 1) if values.ndim == 3 else values[None]


ENHANCE = {
    "brightness": ImageEnhance.Brightness,
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}
OTHERS = {
    "auto_contrast": (0.0, lambda image: ImageOps.autocontrast(image)),
    "equalize": (0.0, lambda image: ImageOps.equalize(image)),
    "posterize": (3.0, lambda image: ImageOps.posterize(image, 3)),
    "solarize": (0.4, lambda image: ImageOps.solarize(image, 102)),
}


@pytest.mark.parametrize("num_channels", [1, 3])
@pytest.mark.parametrize("factor", [0.1, 0.7, 1.0, 1.9])
@pytest.mark.parametrize("name", ENHANCE)
def test_factors_are_those_of_pillow(name, factor, num_channels):
    x = images(num_channels)
    found = getattr(operations, name)(x, torch.full((2,), factor))
    for ours, image in zip(found, x, strict=True):
        # Pillow rounds the gray, the smooth image and the result to whole levels
        theirs = from_pillow(ENHANCE[name](as_pillow(image)).enhance(factor))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2.6 * LEVEL)
    if factor == 1:
        torch.testing.assert_close(found, x)
    elif not (name == "color" and num_channels == 1):
        assert (found - x).abs().max() > 3 * LEVEL  # the control: something is done


@pytest.mark.parametrize("num_channels", [1, 3])
@pytest.mark.parametrize("name", OTHERS)
def test_tables_of_levels_are_those_of_pillow(name, num_channels):
    amount, definition = OTHERS[name]
    x = images(num_channels)
    found = getattr(operations, name)(x, torch.full((2,), amount))
    for ours, image in zip(found, x, strict=True):
        torch.testing.assert_close(ours, from_pillow(definition(as_pillow(image))), rtol=0, atol=1.01 * LEVEL)
    assert (found - x).abs().max() > 3 * LEVEL


def test_equalizing_many_pixels_is_that_of_pillow():
    torch.manual_seed(1)
    x = (torch.rand(1, 1, 40, 40) ** 3 * 255).round() / 255
    theirs = from_pillow(ImageOps.equalize(as_pillow(x[0])))
    torch.testing.assert_close(operations.equalize(x, torch.zeros(1))[0], theirs, rtol=0, atol=1.01 * LEVEL)


def test_uniform_images_stay():
    x = torch.full((1, 3, 6, 6), 0.4)
    for name in ("auto_contrast", "equalize"):
        torch.testing.assert_close(getattr(operations, name)(x, torch.zeros(1)), x)


def test_shifts_move_whole_pixels_right_and_down():
    x = images()
    right, down = (
        operations.translate_x(x, torch.tensor([3.0, -2.0])),
        operations.translate_y(x, torch.tensor([4.0, 0])),
    )
    torch.testing.assert_close(right[0, :, :, 3:], x[0, :, :, :-3])
    torch.testing.assert_close(right[1, :, :, :-2], x[1, :, :, 2:])
    assert not right[0, :, :, :3].any()
    torch.testing.assert_close(down[0, :, 4:], x[0, :, :-4])
    torch.testing.assert_close(down[1], x[1])


def test_rotation_by_quarter_turns_is_clockwise():
    x = images()[..., :20, :]
    found = operations.rotate(x, torch.tensor([90.0, -90.0]))
    torch.testing.assert_close(found[0], torch.rot90(x[0], -1, (1, 2)))
    torch.testing.assert_close(found[1], torch.rot90(x[1], 1, (1, 2)))


@pytest.mark.parametrize("amount", [1.0, -1.0])
def test_a_shear_of_one_slides_each_row_by_its_distance_from_the_center(amount):
    torch.manual_seed(0)
    x = torch.rand(1, 1, 5, 9)
    across = operations.shear_x(x, torch.tensor([amount]))
    down = operations.shear_y(x.mT.contiguous(), torch.tensor([amount])).mT
    for row in range(5):
        moved = int(amount) * (row - 2)
        expected = torch.zeros(9)
        for column in range(9):
            if 0 <= column - moved < 9:
                expected[column] = x[0, 0, row, column - moved]
        torch.testing.assert_close(across[0, 0, row], expected)
        torch.testing.assert_close(down[0, 0, row], expected)
