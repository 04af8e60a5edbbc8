"""Linear layers: the input is the factor, tokens share the weight."""

from jaxtyping import Float
from torch import Tensor, nn

from ..jacobian_factors import DirectVJP, JacobianFactors, OuterFactors


def linear(module: nn.Linear, inputs: Float[Tensor, "N S *tokens D"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = W x + b`: a = x and g = the gradient of y, one row per token."""
    del module
    return {"weight": OuterFactors(inputs, tokens, tokens), "bias": DirectVJP(sum_tokens, additive=True)}


def tokens(features: Float[Tensor, "N S *tokens D"]) -> Float[Tensor, "N S R 1 D"]:
    """The features of every token as rows, in one block."""
    return features.reshape(*features.shape[:2], -1, 1, features.shape[-1])


def sum_tokens(gradient: Float[Tensor, "N S *tokens G"]) -> Float[Tensor, "N G"]:
    """The gradient of an additive vector: the sum over samples and tokens."""
    return gradient.flatten(1, -2).sum(1)
