"""Convolutions: a = patches, positions share the weight, groups are blocks.

One-, two- and three-dimensional layers use the same code: missing spatial axes are inserted with size one, and the
first spatial axis of the kernel is unrolled here because `unfold` supports two.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ..jacobian_factors import DirectVJP, JacobianFactors, OuterFactors, Shortcut

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
ConvTranspose = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


class Window(NamedTuple):
    """Kernel size, stride and dilation over three spatial axes."""

    kernel: tuple[int, int, int]
    stride: tuple[int, int, int]
    dilation: tuple[int, int, int]


def conv(module: Conv, inputs: Float[Tensor, "N S C *space"]) -> dict[str, JacobianFactors]:
    """The factors of a convolution: a = the padded patch under the kernel, g = the gradient at its position."""
    arrange = partial(_positions, module.groups)
    return {
        "weight": OuterFactors(
            inputs, partial(_input_patches, module), arrange, shortcut=_shortcut(module, inputs.shape)
        ),
        "bias": DirectVJP(sum_positions, additive=True),
    }


def conv_transpose(module: ConvTranspose, inputs: Float[Tensor, "N S C *space"]) -> dict[str, JacobianFactors]:
    """The factors of a transposed convolution: a = the input at a position, g = the patch of gradients that it affects.

    The weight's rows are the input channels, so that the roles of rows and columns are swapped.
    """
    unfold = partial(_positions, module.groups)
    arrange = partial(_gradient_patches, module, inputs.shape[3:])
    return {"weight": OuterFactors(inputs, unfold, arrange, input_rows=True), "bias": DirectVJP(sum_positions)}


def sum_positions(gradient: Float[Tensor, "N S G *space"]) -> Float[Tensor, "N G"]:
    """The gradient of one number per channel: the sum over samples and positions."""
    return gradient.reshape(*gradient.shape[:3], -1).sum((1, 3))


def _input_patches(module: Conv, x: Float[Tensor, "N S C *space"]) -> Float[Tensor, "N S R Q D"]:
    # torch stores the padding of both ends, last axis first, also for padding="same"
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    padded = functional.pad(x.flatten(0, 1), module._reversed_padding_repeated_twice, mode=mode)
    return _split_groups(_patches(padded, _window(module)).unflatten(0, x.shape[:2]), module.groups)


def _shortcut(module: Conv, shape: Sequence[int]) -> Shortcut | None:
    """The Gram matrix by `circular_gram`, for filters that wrap around the image with stride and dilation 1."""
    ends = module._reversed_padding_repeated_twice
    wrapped = [ends[2 * axis] + ends[2 * axis + 1] + 1 for axis in reversed(range(len(ends) // 2))]
    single = set(module.stride) | set(module.dilation) == {1}
    if module.padding_mode != "circular" or not single or len(shape) != 5 or wrapped != list(module.kernel_size):
        return None
    images = shape[0], module.groups, shape[2] // module.groups, *shape[3:]
    return circular_shortcut(lambda x: x.flatten(0, 1).unflatten(1, images[1:3]), images, module.kernel_size)


def _gradient_patches(
    module: ConvTranspose, positions: Sequence[int], gradient: Float[Tensor, "N S G *space"]
) -> Float[Tensor, "N S R Q Gk"]:
    padding = [end for size in reversed(_sizes(module.padding)) for end in (size, size)]
    padded = functional.pad(gradient.flatten(0, 1), padding)
    patches = _patches(padded, _window(module), positions)
    return _split_groups(patches.unflatten(0, gradient.shape[:2]), module.groups)


def _positions(groups: int, x: Float[Tensor, "N S C *space"]) -> Float[Tensor, "N S R Q D"]:
    return _split_groups(x.reshape(*x.shape[:3], -1).transpose(2, 3), groups)


def _window(module: Conv | ConvTranspose) -> Window:
    return Window(_three(module.kernel_size), _three(module.stride), _three(module.dilation))


def _sizes(padding: str | tuple[int, ...]) -> tuple[int, ...]:
    assert not isinstance(padding, str), "torch allows padding by name in plain convolutions only"
    return padding


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    a, b, c = (1,) * (3 - len(sizes)) + tuple(sizes)
    return a, b, c


def _patches(
    x: Float[Tensor, "B C *space"], window: Window, positions: Sequence[int] | None = None
) -> Float[Tensor, "B R Ck"]:
    """The patches under the kernel, channel-major as in `weight.flatten(1)`, cropped to `positions` if given."""
    x = x.reshape(*x.shape[:2], *_three(x.shape[2:]))
    reach = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    fits = [(size - r) // s + 1 for size, r, s in zip(x.shape[2:], reach, window.stride, strict=True)]
    depth, height, width = fits if positions is None else _three(positions)
    step, last = window.stride[0], window.stride[0] * (depth - 1) + 1
    slices = []
    for offset in range(0, reach[0], window.dilation[0]):
        layers = x[:, :, offset : offset + last : step].transpose(1, 2).flatten(0, 1)
        cut = functional.unfold(layers, window.kernel[1:], window.dilation[1:], 0, window.stride[1:])
        slices.append(cut.unflatten(1, (x.shape[1], -1)).unflatten(-1, fits[1:])[..., :height, :width].flatten(3))
    # (B·depth, C, kernel depth, kernel area, area) -> (B, depth·area, C·kernel)
    stacked = slices[0].unsqueeze(2) if len(slices) == 1 else torch.stack(slices, 2)
    rows = stacked.flatten(1, 3).transpose(1, 2)
    return rows.reshape(x.shape[0], -1, rows.shape[-1])


def _split_groups(rows: Float[Tensor, "N S R QD"], groups: int) -> Float[Tensor, "N S R Q D"]:
    return rows.unflatten(-1, (groups, -1))


def circular_shortcut(
    arrange: Callable[[Tensor], Tensor], shape: Sequence[int], kernel_size: Sequence[int]
) -> Shortcut | None:
    """The shortcut by `circular_gram`; None if patches are single pixels, or fewer than their entries.

    Arguments:
        arrange: Map from inputs (N, 1, ...) to the images that filters are applied to, (N', Q, C, H, W).
    """
    num_rows, size = shape[0] * shape[3] * shape[4], shape[2] * prod(kernel_size)
    if prod(kernel_size) == 1 or num_rows < size:
        return None
    return Shortcut(lambda inputs: circular_gram(arrange(inputs), kernel_size), num_rows)


def circular_gram(features: Float[Tensor, "N Q C H W"], kernel_size: Sequence[int]) -> Float[Tensor, "Q D D"]:
    r"""The sum :math:`\sum a a^\top` over data and positions of circular patches a, D = C·k·l, in each block q.

    If a filter of k × l positions wraps around the whole image, the entry for channels c, c' and positions i, j,
    :math:`\sum_p x[c, p + i]\, x[c', p + j]`, depends on :math:`j - i` alone. With rows
    :math:`u[c, i_2](p) = x[c, p + (0, i_2)]` and

    .. math:: G_d = \sum_p u(p)\, u(p + (d, 0))^\top, \quad d = 0, \ldots, k - 1,

    the sum consists of blocks :math:`G_{j_1 - i_1}`, transposed below the diagonal: 3 × 3 filters need a third of the
    products of all patches, and of their memory.

    Arguments:
        features: The inputs, channels in blocks.
        kernel_size: The filter's height k and width l.
    """
    height, width = kernel_size
    num_channels, num_rows, num_columns = features.shape[2:]
    wrapped = _wrap(_wrap(features, 3, height - 1), 4, width - 1)
    # (Q, C, l, H + k - 1, N, W): images shifted by one row are one stretch of memory apart
    shifted = wrapped.unfold(4, num_columns, 1).permute(1, 2, 4, 3, 0, 5)
    rows, stretch = shifted.flatten(3).flatten(1, 2), len(features) * num_columns
    first = rows[:, :, : num_rows * stretch]
    apart = [first @ rows[:, :, d * stretch : (d + num_rows) * stretch].mT for d in range(height)]
    blocks = [[apart[j - i] if j >= i else apart[i - j].mT for j in range(height)] for i in range(height)]
    table = torch.stack([torch.stack(line) for line in blocks])  # (k, k, Q, C·l, C·l)
    split = table.unflatten(4, (num_channels, width)).unflatten(3, (num_channels, width))
    return split.permute(2, 3, 0, 4, 5, 1, 6).flatten(4).flatten(1, 3)


def _wrap(images: Float[Tensor, "..."], axis: int, number: int) -> Float[Tensor, "..."]:
    """The images with `number` more entries on an axis, repeated from its beginning."""
    whole, rest = divmod(number, images.shape[axis])
    return torch.cat([images] * (1 + whole) + [images.narrow(axis, 0, rest)], axis)
