"""Fully connected maps of feature maps: whole, or factored into a reading and a writing stage.

A stage of a factored layer is a grouped layer: one block of the weight per channel and one row per datum, without the
rows of zeros from other channels. ∂z is the gradient with respect to z.
"""

from jaxtyping import Float
from torch import Tensor

from ...layers.dense import Dense
from ...layers.factored import FactoredRead, FactoredWrite
from ..jacobian_factors import DirectVJP, JacobianFactors, OuterFactors


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
