"""Linear layers and embeddings: a = the input or its one-hot vector, tokens share the weight."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from ...errors import UnsupportedLayerError
from ..jacobian_factors import DirectVJP, JacobianFactors, LookupFactors, OuterFactors


def linear(module: nn.Linear, inputs: Float[Tensor, "N S *tokens D"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = W x + b`: a = x and g = the gradient of y, one row per token."""
    del module
    return {"weight": OuterFactors(inputs, tokens, tokens), "bias": DirectVJP(sum_tokens, additive=True)}


def embedding(module: nn.Embedding, inputs: Int[Tensor, "N S *tokens"]) -> dict[str, JacobianFactors]:
    """The factors of a table: a = the one-hot vector of the index, g = the gradient of the row it selects."""
    if module.max_norm is not None or module.scale_grad_by_freq:
        raise UnsupportedLayerError(
            "Expected nn.Embedding without max_norm and scale_grad_by_freq, with which its gradient is not the "
            "derivative. Build the embedding without these options, or make its weight a point weight, "
            "Prior(network, point=...)."
        )
    index = inputs.reshape(*inputs.shape[:2], -1)
    if module.padding_idx is not None:
        index = index.masked_fill(index == module.padding_idx, -1)
    return {"weight": LookupFactors(index, module.num_embeddings, module.weight.dtype)}


def tokens(features: Float[Tensor, "N S *tokens D"]) -> Float[Tensor, "N S R 1 D"]:
    """The features of every token as rows, in one block."""
    return features.reshape(*features.shape[:2], -1, 1, features.shape[-1])


def sum_tokens(gradient: Float[Tensor, "N S *tokens G"]) -> Float[Tensor, "N G"]:
    """The gradient of an additive vector: the sum over samples and tokens."""
    return gradient.flatten(1, -2).sum(1)
