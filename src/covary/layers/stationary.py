"""What sparse dense layers become when their length-scale has gone: a plain map that is constant in space."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .dense import check_channels
from .sparse import SparseDense


class GlobalSum(nn.Module):
    r"""The map :math:`y[n,c',x'] = \sum_c W[c',c] \sum_x x[n,c,x] + b[c']`: constant in space, blind to shifts.

    Arguments:
        weight: The matrix W, (C', C).
        bias: The vector b, (C',).
        out_size: The output's (H', W').
    """

    onto_pooled_grid = True

    def __init__(self, weight: Float[Tensor, "G C"], bias: Float[Tensor, " G"], out_size: Sequence[int]) -> None:
        super().__init__()
        out_channels, in_channels = weight.shape
        self.linear = nn.Linear(in_channels, out_channels, device="meta")
        self.linear.weight = nn.Parameter(weight.detach().clone())
        self.linear.bias = nn.Parameter(bias.detach().clone())
        self.out_size = tuple(out_size)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """The output features, (N, C', H', W')."""
        check_channels(input, self.linear.in_features, "GlobalSum")
        return self.linear(input.sum((2, 3)))[:, :, None, None].expand(-1, -1, *self.out_size)

    @torch.no_grad()
    def rescale_(self, factor: float | int) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.linear.weight.mul_(factor)
        self.linear.bias.mul_(factor)


@torch.no_grad()
def stationary(layer: SparseDense) -> GlobalSum:
    r"""The plain layer that a sparse dense one becomes at :math:`\omega = 0`, where every :math:`\phi_j` is 1.

    With bars for sums over anchors, its :math:`W[c',c]` is :math:`\bar u_1[c',c]\, \bar u_2[c',c]`, and
    :math:`b[c'] = b_2[c'] \sum_c \bar u_1[c',c]`. The layer itself is left as it is. A `SparseConv` needs no such map:
    a convolution is stationary at any :math:`\omega`.
    """
    written, read = layer.write.values.sum(1), layer.read.values.sum(2).T
    return GlobalSum(written * read, layer.read.bias * written.sum(1), layer.write.out_shape[1:])
