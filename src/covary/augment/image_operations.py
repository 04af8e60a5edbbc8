"""The operations of RandAugment and TrivialAugment on images (N, C, H, W) with values in [0, 1], each with one amount.

Amounts are one number per image. Geometric operations resample bilinearly about the center, with 0 outside; a
positive angle turns the content clockwise (y points down), a positive shift moves it right or down.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ..groups import warp

Images = Float[Tensor, "N C H W"]
Amounts = Float[Tensor, " N"]
Operation = Callable[[Tensor, Tensor], Tensor]
LUMA = (0.299, 0.587, 0.114)  # the weights of red, green and blue in the gray of an image (ITU-R BT.601)
LEVELS = 255


def identity(x: Images, amount: Amounts) -> Images:
    """The images themselves."""
    del amount
    return x


def shear_x(x: Images, amount: Amounts) -> Images:
    """Images whose rows slide by the amount times their height above or below the center."""
    return _warped(x, _matrices(amount, {(0, 1): -amount}))


def shear_y(x: Images, amount: Amounts) -> Images:
    """Images whose columns slide by the amount times their distance from the center."""
    return _warped(x, _matrices(amount, {(1, 0): -amount}))


def translate_x(x: Images, amount: Amounts) -> Images:
    """Images moved right by this many pixels."""
    return _warped(x, _matrices(amount, {(0, 2): -2 * amount / x.shape[-1]}))


def translate_y(x: Images, amount: Amounts) -> Images:
    """Images moved down by this many pixels."""
    return _warped(x, _matrices(amount, {(1, 2): -2 * amount / x.shape[-2]}))


def rotate(x: Images, amount: Amounts) -> Images:
    """Images turned clockwise by this many degrees."""
    angle = torch.deg2rad(amount)
    cos, sin = angle.cos(), angle.sin()
    return _warped(x, _matrices(amount, {(0, 0): cos, (0, 1): sin, (1, 0): -sin, (1, 1): cos}))


def brightness(x: Images, amount: Amounts) -> Images:
    """Images mixed with black: 0 is black, 1 the image, more is brighter."""
    return _mixed(torch.zeros_like(x), x, amount)


def color(x: Images, amount: Amounts) -> Images:
    """Images mixed with their gray: 0 is gray, 1 the image, more has stronger colors. Gray images stay as they are."""
    return _mixed(_gray(x).expand_as(x), x, amount)


def contrast(x: Images, amount: Amounts) -> Images:
    """Images mixed with the mean of their gray: 0 is uniform, 1 the image, more has stronger contrasts."""
    return _mixed(_gray(x).mean((2, 3), keepdim=True).expand_as(x), x, amount)


def sharpness(x: Images, amount: Amounts) -> Images:
    """Images mixed with a smooth version: 0 is smooth, 1 the image, more is sharper. Pixels at the edge stay."""
    if min(x.shape[-2:]) < 3:
        return x
    kernel = x.new_ones(3, 3)
    kernel[1, 1] = 5.0
    weight = (kernel / kernel.sum()).expand(x.shape[1], 1, 3, 3)
    smooth = x.clone()
    smooth[..., 1:-1, 1:-1] = functional.conv2d(x, weight, groups=x.shape[1])
    return _mixed(smooth, x, amount)


def posterize(x: Images, amount: Amounts) -> Images:
    """Images with only the highest bits of each of 256 levels; the amount is the number of bits, rounded down."""
    step = 2.0 ** (8 - amount.floor())
    levels = (x * LEVELS).round()
    return (levels / _per_image(step)).floor() * _per_image(step) / LEVELS


def solarize(x: Images, amount: Amounts) -> Images:
    """Images with every value from the amount on inverted."""
    return torch.where(x >= _per_image(amount), 1 - x, x)


def auto_contrast(x: Images, amount: Amounts) -> Images:
    """Images whose darkest value is 0 and whose brightest is 1 in each channel; uniform channels stay."""
    del amount
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    span = high - low
    return torch.where(span > 0, (x - low) / torch.where(span > 0, span, 1.0), x)


def equalize(x: Images, amount: Amounts) -> Images:
    """Images whose 256 levels are made equally frequent in each channel, as far as pixels of one level stay together.

    A level becomes the number of darker pixels in units of a step: with the pixels of the brightest level left out, a
    255th of all. Channels with too few levels for such a step stay.
    """
    del amount
    levels = (x * LEVELS).round().long().flatten(2)
    counts = torch.zeros(*levels.shape[:2], LEVELS + 1, dtype=torch.long, device=x.device)
    counts = counts.scatter_add(2, levels, torch.ones_like(levels))
    brightest = counts.gather(2, levels.amax(2, keepdim=True))
    step = (counts.sum(2, keepdim=True) - brightest) // LEVELS
    darker = counts.cumsum(2) - counts
    table = ((darker + step // 2) // step.clamp_min(1)).clamp(0, LEVELS)
    equal = table.gather(2, levels).to(x.dtype).unflatten(2, x.shape[2:]) / LEVELS
    return torch.where((step > 0)[..., None], equal, x)


def _per_image(amount: Amounts) -> Float[Tensor, "N 1 1 1"]:
    return amount[:, None, None, None]


def _mixed(other: Images, x: Images, amount: Amounts) -> Images:
    """The mixture other + amount · (x − other), within [0, 1]."""
    return (other + _per_image(amount) * (x - other)).clamp(0, 1)


def _gray(x: Images) -> Float[Tensor, "N 1 H W"]:
    if x.shape[1] != len(LUMA):
        return x.mean(1, keepdim=True)
    return torch.einsum("nchw,c->nhw", x, x.new_tensor(LUMA))[:, None]


def _matrices(amount: Amounts, entries: dict[tuple[int, int], Tensor]) -> Float[Tensor, "N 3 3"]:
    matrices = torch.eye(3, dtype=amount.dtype, device=amount.device).repeat(len(amount), 1, 1)
    for (row, column), values in entries.items():
        matrices[:, row, column] = values
    return matrices


def _warped(x: Images, matrices: Float[Tensor, "N 3 3"]) -> Images:
    return warp(x, matrices[:, None])[:, 0]
