r"""Patches of circular convolutions: their Gram matrix from few products, since patches overlap.

If a filter of k × l positions wraps around the whole image, the entry of A for channels c, c' and positions i, j,
:math:`\sum_p x[c, p + i]\, x[c', p + j]`, depends on :math:`j - i` alone. With rows
:math:`u[c, i_2](p) = x[c, p + (0, i_2)]` and

.. math:: G_d = \sum_p u(p)\, u(p + (d, 0))^\top, \quad d = 0, \ldots, k - 1,

A consists of blocks :math:`G_{j_1 - i_1}`, transposed below the diagonal: 3 × 3 filters need a third of the products
of all patches, and of their memory.
"""

from collections.abc import Callable, Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from ..jacobian_factors import Shortcut


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
