r"""The tangent kernel: the full GGN by its dual, as large as the data instead of the weights.

.. math:: K = \Lambda^{1/2} \hat J \delta^{-1} \hat J^\top \Lambda^{1/2}, \qquad
    \log|H + \delta| - \log|\delta| = \log|I + K|.

One row per datum and column of the root of Λ, column-major: row k·N + n. Layer by layer,
:math:`K = \sum_\text{weights} \delta^{-1} \sum_{s,r,s',r'} (a \cdot a')(g \cdot g')`, so that a vector as long as the
weights is never formed where the sum over rows is cheaper.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from .capture import Captured
from .jacobian import weight_columns
from .shares import Outer

__all__ = ["tangent_kernel"]


def tangent_kernel(
    captured: Captured, columns: Iterable[Float[Tensor, "N C"]], shifts: Mapping[str, Tensor]
) -> Float[Tensor, "KN KN"]:
    """The kernel K of a captured pass, a sum over weights.

    Arguments:
        captured: The pass.
        columns: Columns of the root of Λ; `num_rows` of the kernel is their number times N.
        shifts: The prior precision of each weight, 0-d or (numel,).
    """
    gradients = list(captured.pull_all(columns))  # K lists of gradients, one per call
    num_rows = len(gradients) * len(captured.outputs)
    kernel = captured.outputs.new_zeros(num_rows, num_rows)
    for name, weight in captured.weights.items():
        if not captured.shares[name]:
            continue
        outer = _single_outer(captured, name)
        if outer is not None and shifts[name].ndim == 0 and _rows_are_cheaper(outer, len(captured.outputs), weight):
            kernel = kernel + _by_rows(captured, name, outer, gradients) / shifts[name]
        else:
            kernel = kernel + _by_columns(captured, name, gradients, shifts[name])
    return kernel


def _single_outer(captured: Captured, name: str) -> Outer | None:
    """The one share of a weight that was called once, as a whole and ungrouped; else None."""
    shares = [placed.share for placed in captured.shares[name]]
    if len(shares) == 1 and isinstance(shares[0], Outer) and shares[0].block == (0, 1) and shares[0].fold == 1:
        return shares[0]
    return None


def _rows_are_cheaper(share: Outer, num_data: int, weight: Tensor) -> bool:
    """Whether (N·S·R)² products of rows cost less than N columns as long as the weight."""
    a = share.unfold(share.inputs[:1])
    rows_per_datum = a.shape[1] * a.shape[2]
    return a.shape[3] == 1 and num_data * rows_per_datum**2 <= weight.numel()


def _by_rows(
    captured: Captured, name: str, share: Outer, gradients: Sequence[Sequence[Tensor]]
) -> Float[Tensor, "KN KN"]:
    r"""The sum over rows of :math:`(a \cdot a')(g \cdot g')`."""
    call = captured.shares[name][0].call
    a = share.unfold(share.inputs).squeeze(3).flatten(1, 2)  # (N, T, D), T = S·R
    g = torch.cat([share.arrange(column[call]).squeeze(3).flatten(1, 2) for column in gradients])  # (K·N, T, G)
    num_data, num_rows = a.shape[:2]
    inputs = (a.flatten(0, 1) @ a.flatten(0, 1).T).repeat(len(gradients), len(gradients))
    products = inputs * (g.flatten(0, 1) @ g.flatten(0, 1).T)
    size = len(gradients) * num_data
    return products.view(size, num_rows, size, num_rows).sum((1, 3))


def _by_columns(
    captured: Captured, name: str, gradients: Sequence[Sequence[Tensor]], shift: Tensor
) -> Float[Tensor, "KN KN"]:
    r"""The Gram matrix of explicit columns :math:`\hat J^\top v / \sqrt\delta`."""
    everything = slice(0, len(captured.outputs))
    jacobian = torch.cat([weight_columns(captured, name, column, everything) for column in gradients])
    return (jacobian / shift) @ jacobian.T
