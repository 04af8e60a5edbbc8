"""Embeddings: tables whose input is an index."""

from jaxtyping import Int
from torch import Tensor, nn

from ...errors import UnsupportedLayerError
from ..jacobian_factors import JacobianFactors, LookupFactors


def embedding(module: nn.Embedding, inputs: Int[Tensor, "N S *tokens"]) -> dict[str, JacobianFactors]:
    """The factors of a table: a = the one-hot vector of the index, g = the gradient of the row it selects."""
    if module.max_norm is not None or module.scale_grad_by_freq:
        raise UnsupportedLayerError(
            "nn.Embedding with max_norm or scale_grad_by_freq has a gradient that is not its derivative. "
            "Build the embedding without these options, or leave its weight out of the prior."
        )
    index = inputs.reshape(*inputs.shape[:2], -1)
    if module.padding_idx is not None:
        index = index.masked_fill(index == module.padding_idx, -1)
    return {"weight": LookupFactors(index, module.num_embeddings, module.weight.dtype)}
