"""Images and their circular shifts, for tests that a map commutes with them."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from covary.data import load

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of MNIST


def digits(number: int, size: int = 32) -> Tensor:
    """Normalized digits, resized bilinearly: a constant background, hence many equal pixels."""
    images = (load("mnist-mini").x_train[:number].double() - MEAN) / DEVIATION
    return interpolate(images, size=(size, size), mode="bilinear", align_corners=False)


def rolled(images: Tensor, shifts: list[tuple[int, int]]) -> Tensor:
    """Each image under a circular shift of its own."""
    return torch.stack([image.roll(shift, (-2, -1)) for image, shift in zip(images, shifts, strict=True)])


def distance(found: Tensor, expected: Tensor) -> float:
    """The largest difference of two batches (N, C, h, w), each example up to the circular shift that fits it best."""
    height, width = expected.shape[-2:]
    rolls = (expected.detach().roll((i, j), (-2, -1)) for i in range(height) for j in range(width))
    return float(torch.stack([(roll - found.detach()).abs().amax((1, 2, 3)) for roll in rolls]).amin(0).max())
