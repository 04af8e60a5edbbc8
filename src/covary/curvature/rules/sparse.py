r"""Fully connected maps of feature maps: whole, factored into a reading and a writing stage, or sparse.

A stage of a factored layer is a grouped layer: one block of the weight per channel and one row per datum, without the
rows of zeros from other channels. ∂z is the gradient with respect to z. In sparse layers the spatial side of a or g is
projected by the basis; anchors and length-scale by their products.

A layer is linear in its values through :math:`\phi`, so that their rows are those of its plain counterpart with
:math:`\phi` applied to the spatial side (paper 2, Sec. 5.2). Its output is linear in :math:`\phi` too: with the
derivatives :math:`\partial\phi` instead of :math:`\phi`, the same sums give the products
:math:`\hat J_n^\top v` of anchor offsets and length-scale.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ...layers.dense import Dense, pad_circular
from ...layers.factored import FactoredRead, FactoredWrite
from ...layers.sparse import AbstractSparse, SparseConv, SparseRead, SparseWrite
from ..jacobian_factors import DirectVJP, JacobianFactors, OuterFactors
from .conv import sum_positions

# From derivatives (M, K, X) of φ and output gradients to (N, M, K): for each anchor, the derivative of v·f̂.
Response = Callable[[Tensor, Tensor], Tensor]


def sparse_conv(module: SparseConv, inputs: Float[Tensor, "N S C H W"]) -> dict[str, JacobianFactors]:
    r"""The factors of a sparse convolution: a = :math:`\phi` times the patch under the filter, for every channel."""
    phi = module.basis()
    factors: dict[str, JacobianFactors] = {
        "values": OuterFactors(inputs, lambda x: _positions(_filtered(x, phi).flatten(2, 3)), _positions),
        "bias": DirectVJP(sum_positions, additive=True),
    }
    return factors | _basis_factors(module, partial(_conv_response, module, inputs))


def sparse_read(module: SparseRead, inputs: Float[Tensor, "N S C H W"]) -> dict[str, JacobianFactors]:
    r"""The factors of a reading stage: for block c, a = :math:`\phi x_c`."""
    phi = module.basis()
    factors: dict[str, JacobianFactors] = {
        "values": OuterFactors(inputs, lambda x: by_channel(x.flatten(3) @ phi.T), by_input),
        "bias": DirectVJP(sum_inputs, additive=True),
    }
    return factors | _basis_factors(module, partial(_read_response, module, inputs))


def sparse_write(module: SparseWrite, inputs: Float[Tensor, "N S G C"]) -> dict[str, JacobianFactors]:
    r"""The factors of a writing stage: for block c', g = :math:`\phi` times the gradient of y_c'."""
    phi = module.basis()
    factors: dict[str, JacobianFactors] = {
        "values": OuterFactors(inputs, by_channel, lambda gradient: by_channel(gradient.flatten(3) @ phi.T))
    }
    return factors | _basis_factors(module, partial(_write_response, module, inputs))


def _basis_factors(module: AbstractSparse, response: Response) -> dict[str, JacobianFactors]:
    """The factors of the parameters of the basis."""
    return {
        "offsets": DirectVJP(lambda gradient: response(module.anchor_gradients(), gradient).flatten(1)),
        "omega": DirectVJP(lambda gradient: response(module.omega_gradients()[:, None], gradient).sum(1)),
    }


def _conv_response(
    module: SparseConv, inputs: Float[Tensor, "N S C H W"], derivatives: Float[Tensor, "M K X"], gradient: Tensor
) -> Float[Tensor, "N M K"]:
    # the gradient is first multiplied by the values, so that no tensor of the size of a datum's filters is formed
    back = torch.einsum("nsgp,gcj->nscjp", gradient.flatten(3), module.values)
    along = _filtered(inputs, derivatives.flatten(0, 1)).flatten(4).unflatten(3, derivatives.shape[:2])
    return torch.einsum("nscjp,nscjkp->njk", back, along)


def _read_response(
    module: SparseRead, inputs: Float[Tensor, "N S C H W"], derivatives: Float[Tensor, "M K X"], gradient: Tensor
) -> Float[Tensor, "N M K"]:
    back = torch.einsum("nsgc,cgj->nscj", gradient, module.values)
    along = torch.einsum("nscx,jkx->nscjk", inputs.flatten(3), derivatives)
    return torch.einsum("nscj,nscjk->njk", back, along)


def _write_response(
    module: SparseWrite, inputs: Float[Tensor, "N S G C"], derivatives: Float[Tensor, "M K X"], gradient: Tensor
) -> Float[Tensor, "N M K"]:
    written = torch.einsum("nsgc,gjc->nsgj", inputs, module.values)
    along = torch.einsum("nsgx,jkx->nsgjk", gradient.flatten(3), derivatives)
    return torch.einsum("nsgj,nsgjk->njk", written, along)


def _filtered(x: Float[Tensor, "N S C H W"], filters: Float[Tensor, "F X"]) -> Float[Tensor, "N S C F H W"]:
    """Every channel filtered by every filter, with circular padding, without storing patches."""
    size = round(filters.shape[1] ** 0.5)
    padded = pad_circular(x.flatten(0, 2)[:, None], size)
    return functional.conv2d(padded, filters.unflatten(1, (1, size, size))).unflatten(0, x.shape[:3])


def _positions(x: Float[Tensor, "N S D H W"]) -> Float[Tensor, "N S R 1 D"]:
    return x.flatten(3).transpose(2, 3)[:, :, :, None]


def dense(module: Dense, inputs: Float[Tensor, "N S C H W"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = W x + b`: a = all of x and g = the gradient of all of y, one row per datum."""
    del module
    return {
        "weight": OuterFactors(inputs, _whole, _whole),
        "bias": DirectVJP(lambda g: g.flatten(2).sum(1), additive=True),
    }


def factored_read(module: FactoredRead, inputs: Float[Tensor, "N S C H W"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`z_{c'c} = \theta_{cc'} \cdot x_c + b_{c'}`: in block c, a = x_c, g = ∂z_c."""
    del module
    return {"weight": OuterFactors(inputs, by_channel, by_input), "bias": DirectVJP(sum_inputs, additive=True)}


def factored_write(module: FactoredWrite, inputs: Float[Tensor, "N S G C"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y_{c'x} = \theta_{c'x} \cdot z_{c'} + b_x`: in block c', a = z_c', g = ∂y_c'."""
    del module
    return {"weight": OuterFactors(inputs, by_channel, by_channel), "bias": DirectVJP(_sum_channels, additive=True)}


def by_channel(features: Float[Tensor, "N S C *space"]) -> Float[Tensor, "N S 1 C D"]:
    """One row per datum, with a block per channel."""
    return features.flatten(3)[:, :, None]


def sum_inputs(gradient: Float[Tensor, "N S G C"]) -> Float[Tensor, "N G"]:
    """The gradient of one number per output channel: the sum over samples and input channels."""
    return gradient.sum((1, 3))


def by_input(gradient: Float[Tensor, "N S G C"]) -> Float[Tensor, "N S 1 C G"]:
    """One row per datum, with a block per input channel."""
    return gradient.transpose(2, 3)[:, :, None]


def _sum_channels(gradient: Float[Tensor, "N S G H W"]) -> Float[Tensor, "N HW"]:
    return gradient.sum((1, 2)).flatten(1)


def _whole(features: Float[Tensor, "N S C H W"]) -> Float[Tensor, "N S 1 1 CHW"]:
    return features.flatten(2)[:, :, None, None]
