r"""Group convolutions: plain convolutions of the input of each slice, with one slice per group element.

Rows are pairs (h, p) of element and position: a = the patch under the filter of slice h, g = the gradient at slice h.
Over elements the factors are reduced as over samples: the mean of a over h is the patch of the mean slice under every
turn u, computed before unfolding, so that patches cost as much as those of one slice.
"""

from collections.abc import Callable, Sequence
from functools import partial

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ...layers.dense import pad_circular
from ...layers.group import GroupStage
from ..jacobian_factors import DirectVJP, JacobianFactors, MergedFactors, OuterFactors, Shortcut
from .conv import circular_shortcut, sum_positions


def group_stage(module: GroupStage, inputs: Float[Tensor, "N S _ H W"]) -> dict[str, JacobianFactors]:
    """The factors of one stage of a group convolution; a bias is shared by slices and positions."""
    size = module.group.size
    merged = MergedFactors(
        lambda features: _patches(module, module.seen_on_average(features)),
        lambda gradient: _positions(module, _slices(size, gradient).sum(2, keepdim=True)),
        _shortcut(module, module.seen_on_average, len(inputs), inputs.shape[3:]),
    )
    weight = OuterFactors(
        inputs,
        lambda features: _patches(module, module.seen(features)),
        lambda gradient: _positions(module, _slices(size, gradient)),
        merged=merged,
        shortcut=_shortcut(module, module.seen, len(inputs) * size, inputs.shape[3:]),
    )
    return {"weight": weight, "bias": DirectVJP(partial(_sum_slices, size), additive=True)}


def _shortcut(
    module: GroupStage, seen: Callable[[Tensor], Tensor], num_images: int, space: Sequence[int]
) -> Shortcut | None:
    """The faster way to the Gram matrix of the patches under the filters."""
    inner = module.weight.shape[1] * (module.group.size if module.filter.over_group else 1)
    images = num_images, module.num_blocks, inner, *space
    kernel_size = module.filter.kernel_size, module.filter.kernel_size
    return circular_shortcut(lambda x: seen(x).flatten(0, 2).unflatten(1, images[1:3]), images, kernel_size)


def _slices(size: int, gradient: Float[Tensor, "N S _ H W"]) -> Float[Tensor, "N S M C H W"]:
    """The output gradient with an axis for its M slices."""
    return gradient.unflatten(2, (-1, size)).transpose(2, 3)


def _patches(module: GroupStage, seen: Float[Tensor, "N S M CU H W"]) -> Float[Tensor, "N S R Q D"]:
    kernel_size = module.filter.kernel_size
    cut = functional.unfold(pad_circular(seen.flatten(0, 2), kernel_size), kernel_size)
    rows = cut.transpose(1, 2).unflatten(0, seen.shape[:3])
    return rows.flatten(2, 3).unflatten(-1, (module.num_blocks, -1))


def _positions(module: GroupStage, slices: Float[Tensor, "N S M C H W"]) -> Float[Tensor, "N S R Q G"]:
    return slices.flatten(4).transpose(3, 4).flatten(2, 3).unflatten(-1, (module.num_blocks, -1))


def _sum_slices(size: int, gradient: Float[Tensor, "N S _ H W"]) -> Float[Tensor, "N C"]:
    return sum_positions(gradient.unflatten(2, (-1, size)))
