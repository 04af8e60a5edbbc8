"""TrivialAugment and RandAugment: augmentations that are the same for every data set, without anything to learn.

Both choose from the same fourteen operations (`image_operations.py`) with equal probability, and differ in how many
they apply and how strongly. They are baselines for what an augmentation that is learned should beat.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError
from ..noise import Stream, uniform
from . import image_operations as operations

ROUNDING = 1e-4  # by which interpolated images may leave [0, 1]
Transform = Callable[[Tensor, Tensor, int], Tensor]  # (x, index, seed) -> x, as `covary.data.Augmented` takes it
STRENGTHS = 30  # the strength of an operation is one of 0, …, 30


class Choice(NamedTuple):
    """One operation with its range: from a strength in [0, 1] and the side of an image to an amount."""

    apply: operations.Operation
    amount: Callable[[Tensor, int], Tensor]
    # whether the amount is negated, or mirrored at 1 for a factor, with probability ½
    signed: Callable[[Tensor], Tensor] | None = None


def _up_to(largest: float) -> Callable[[Tensor, int], Tensor]:
    return lambda strength, side: largest * strength


def _between(first: float, last: float) -> Callable[[Tensor, int], Tensor]:
    return lambda strength, side: first + (last - first) * strength


def _choices(
    *, shear: float, shift: Callable[[Tensor, int], Tensor], angle: float, factor: float, bits: int
) -> dict[str, Choice]:
    """The fourteen operations with these ranges."""
    factors = {"brightness": operations.brightness, "color": operations.color}
    factors |= {"contrast": operations.contrast, "sharpness": operations.sharpness}
    return {
        "identity": Choice(operations.identity, _up_to(0.0)),
        "shear_x": Choice(operations.shear_x, _up_to(shear), torch.neg),
        "shear_y": Choice(operations.shear_y, _up_to(shear), torch.neg),
        "translate_x": Choice(operations.translate_x, shift, torch.neg),
        "translate_y": Choice(operations.translate_y, shift, torch.neg),
        "rotate": Choice(operations.rotate, _up_to(angle), torch.neg),
        **{name: Choice(apply, _between(1.0, 1 + factor), lambda drawn: 2 - drawn) for name, apply in factors.items()},
        "posterize": Choice(operations.posterize, _between(8.0, float(bits))),
        "solarize": Choice(operations.solarize, _between(1.0, 0.0)),
        "auto_contrast": Choice(operations.auto_contrast, _up_to(0.0)),
        "equalize": Choice(operations.equalize, _up_to(0.0)),
    }


WIDE = _choices(shear=0.99, shift=lambda strength, side: min(32, side) * strength, angle=135.0, factor=0.99, bits=2)
NARROW = _choices(shear=0.3, shift=lambda strength, side: 150 / 331 * side * strength, angle=30.0, factor=0.9, bits=4)


class Automatic(nn.Module):
    """Random operations on images in [0, 1]; without learnable widths."""

    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    choices: Mapping[str, Choice]

    def __init__(self, num_operations: int) -> None:
        super().__init__()
        self.num_operations = num_operations

    @property
    def widths(self) -> Float[Tensor, " 0"]:
        """No widths."""
        return torch.zeros(0)

    def sample_noise(
        self, index: Int[Tensor, "N"], num_samples: int, *, seed: int
    ) -> Float[Tensor, "N S num_operations 3"]:
        """Uniform numbers for the operation, its strength and its sign, functions of the seed and the index."""
        shape = (num_samples, self.num_operations, 3)
        return uniform(seed, index, shape, stream=Stream.AUGMENTATION, dtype=torch.float64)

    def transform(self, x: Float[Tensor, "N C H W"], noise: Tensor) -> Float[Tensor, "N S C H W"]:
        """The images under their operations; values of x are from 0 to 1."""
        check_range(x)
        found = x[:, None].expand(-1, noise.shape[1], -1, -1, -1).flatten(0, 1).clone()
        for draws in noise.flatten(0, 1).unbind(1):
            chosen = (draws[:, 0] * len(self.choices)).long()
            for number, choice in enumerate(self.choices.values()):
                rows = (chosen == number).nonzero()[:, 0]
                if len(rows):
                    found[rows] = choice.apply(found[rows], self._amounts(choice, draws[rows], x))
        return found.unflatten(0, noise.shape[:2])

    def strength(self, number: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The strength in [0, 1] for a uniform number; every policy has its own."""
        raise NotImplementedError

    def _amounts(self, choice: Choice, draws: Float[Tensor, "N 3"], x: Tensor) -> Float[Tensor, " N"]:
        side = x.shape[-2] if choice.apply is operations.translate_y else x.shape[-1]
        amounts = choice.amount(self.strength(draws[:, 1]), side)
        if choice.signed is not None:
            amounts = torch.where(draws[:, 2] < 0.5, amounts, choice.signed(amounts))
        return amounts.to(x.dtype)


class TrivialAugment(Automatic):
    """One random operation per image with a random strength: TrivialAugment with its wide ranges.

    Shear up to 0.99, shift up to 32 pixels or the whole side, rotation up to 135°, brightness, color, contrast and
    sharpness by a factor from 0.01 to 1.99, 8 to 2 bits, any threshold of solarization (Müller and Hutter, 2021).

    Example:
        >>> import torch
        >>> from covary.augment import TrivialAugment
        >>> augment, index = TrivialAugment(), torch.arange(5)
        >>> augment.transform(torch.rand(5, 3, 8, 8), augment.sample_noise(index, 2, seed=0)).shape
        torch.Size([5, 2, 3, 8, 8])
    """

    choices = WIDE

    def __init__(self) -> None:
        super().__init__(1)

    def strength(self, number: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """Each of the 31 strengths with the same probability."""
        return (number * (STRENGTHS + 1)).floor() / STRENGTHS


class RandAugment(Automatic):
    """Several random operations per image with one strength for all: RandAugment.

    Shear up to 0.3, shift up to 45 % of the side, rotation up to 30°, brightness, color, contrast and sharpness by a
    factor from 0.1 to 1.9, 8 to 4 bits, any threshold of solarization (Cubuk et al., 2020).

    Arguments:
        num_operations: The number of operations, one after the other.
        magnitude: Their strength, from 0 to 30.

    Example:
        >>> import torch
        >>> from covary.augment import RandAugment
        >>> augment, index = RandAugment(), torch.arange(5)
        >>> augment.transform(torch.rand(5, 3, 8, 8), augment.sample_noise(index, 2, seed=0)).shape
        torch.Size([5, 2, 3, 8, 8])
    """

    choices = NARROW

    def __init__(self, num_operations: int = 2, magnitude: int = 9) -> None:
        if num_operations < 1 or not 0 <= magnitude <= STRENGTHS:
            raise DataError(
                f"Expected one operation or more and a magnitude from 0 to {STRENGTHS}, got {num_operations} and "
                f"{magnitude}."
            )
        super().__init__(num_operations)
        self.magnitude = magnitude

    def strength(self, number: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The same strength for every image."""
        return torch.full_like(number, self.magnitude / STRENGTHS)


def check_range(x: Tensor) -> None:
    """Raise `DataError` for what are no images with values from 0 to 1."""
    if x.ndim != 4 or not (float(x.min()) >= -ROUNDING and float(x.max()) <= 1 + ROUNDING):
        raise DataError(
            f"Expected images (N, C, H, W) with values from 0 to 1, got shape {tuple(x.shape)} and values from "
            f"{float(x.min()):.3g} to {float(x.max()):.3g}: TrivialAugment and RandAugment define colors and contrasts "
            "on that range. Rescale the images, or leave these augmentations out."
        )


def as_transform(augment: Automatic) -> Transform:
    """One sample of each image as a transform."""
    return lambda x, index, seed: augment.transform(x, augment.sample_noise(index, 1, seed=seed))[:, 0]


def in_turn(transforms: Sequence[Transform]) -> Transform:
    """Transforms one after the other; one alone is itself."""
    if len(transforms) == 1:
        return transforms[0]
    return lambda x, index, seed: reduce(lambda images, transform: transform(images, index, seed), transforms, x)
