"""Scalar scale and bias: one number for the whole feature map."""

from jaxtyping import Float
from torch import Tensor

from ...layers import Bias, Scale
from ..jacobian_factors import DirectVJP, JacobianFactors


def scale(module: Scale, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w x`: the sum of :math:`x \odot g` over everything."""
    del module
    return {"weight": DirectVJP(lambda gradient: (gradient * inputs).flatten(1).sum(1, keepdim=True))}


def bias(module: Bias, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = x + b`: the sum of g over everything."""
    del module, inputs
    return {"bias": DirectVJP(lambda gradient: gradient.flatten(1).sum(1, keepdim=True))}
