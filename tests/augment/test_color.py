"""Brightness, contrast, saturation and hue."""

import colorsys

import pytest
import torch

from covary.augment import ColorJitter
from covary.errors import ShapeError, StructureError

LUMA = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)


def moved(name, width, x):
    """The images at the upper end of one transform."""
    return ColorJitter((name,), initial_width=width).transform(x, torch.ones(len(x), 1, 1))[:, 0].detach()


@pytest.fixture
def images(generator):
    return torch.rand(2, 3, 4, 5, generator=generator)


def test_each_transform_by_its_definition(images):
    gray = (LUMA[:, None, None] * images).sum(1, keepdim=True)
    mean = gray.mean((2, 3), keepdim=True)
    factor = torch.tensor(0.4).exp()
    torch.testing.assert_close(moved("brightness", 0.4, images), images * factor)
    torch.testing.assert_close(moved("contrast", 0.4, images), mean + (images - mean) * factor)
    torch.testing.assert_close(moved("saturation", 0.4, images), gray + (images - gray) * factor)


def test_a_third_of_the_hue_moves_red_to_green_and_keeps_gray(images):
    third = moved("hue", 2 * torch.pi / 3, images)
    torch.testing.assert_close(third, images.roll(1, dims=1))
    gray = images[:, :1].expand(-1, 3, -1, -1)
    torch.testing.assert_close(moved("hue", 1.0, gray), gray)
    red = torch.tensor([0.8, 0.3, 0.3]).reshape(1, 3, 1, 1)
    hue = colorsys.rgb_to_hsv(*moved("hue", 2 * torch.pi / 3, red).flatten().tolist())[0]
    assert hue == pytest.approx(1 / 3), "of the usual color circle too"


def test_contrast_of_gray_images(images):
    gray = images[:, :1]
    mean = gray.mean((2, 3), keepdim=True)
    torch.testing.assert_close(moved("contrast", 0.4, gray), mean + (gray - mean) * torch.tensor(0.4).exp())


@pytest.mark.parametrize(
    ("names", "shape", "error", "message"),
    [
        (("hue",), (2, 1, 4, 4), ShapeError, r"\(N, 3, H, W\), as hue need colors, got \(2, 1, 4, 4\)"),
        (("contrast",), (2, 2, 4, 4), ShapeError, "of 1 or 3 channels"),
        (("contrast",), (2, 8, 8, 3), ShapeError, "channels last"),
        (("gamma",), (2, 3, 4, 4), StructureError, "names among brightness, contrast, saturation, hue, got 'gamma'"),
        (("hue", "hue"), (2, 3, 4, 4), StructureError, "different names"),
    ],
)
def test_what_does_not_fit_is_named(names, shape, error, message):
    with pytest.raises(error, match=message):
        ColorJitter(names).transform(torch.rand(shape), torch.zeros(2, 1, len(names)))
