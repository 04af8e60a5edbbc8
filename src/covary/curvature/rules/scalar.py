"""Scalar scale and bias: one number for the whole feature map."""

from jaxtyping import Float
from torch import Tensor

from ...layers import Bias, Scale
from ..jacobian_factors import Exact, Share


def scale(module: Scale, inputs: Float[Tensor, "N S *features"]) -> dict[str, Share]:
    r"""The share of :math:`y = w x`: the sum of :math:`x \odot g` over everything."""
    del module
    return {"weight": Exact(lambda gradient: (gradient * inputs).flatten(1).sum(1, keepdim=True))}


def bias(module: Bias, inputs: Float[Tensor, "N S *features"]) -> dict[str, Share]:
    r"""The share of :math:`y = x + b`: the sum of g over everything."""
    del module, inputs
    return {"bias": Exact(lambda gradient: gradient.flatten(1).sum(1, keepdim=True))}
