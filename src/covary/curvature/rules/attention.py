"""Multi-head attention, whose projections forward hooks cannot observe.

`nn.MultiheadAttention` multiplies by its projection matrices inside one fused function. During a captured pass its
forward is replaced by `attend`, the same computation in steps, which reports the query, key and value projections as
three linear layers stored in one tensor: three blocks of rows. The output projection is a module of its own. Scores
are plain matrix products, so that second derivatives exist.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UnsupportedLayerError
from ..jacobian_factors import DirectVJP, JacobianFactors, OuterFactors
from .linear import sum_tokens, tokens

RuleFunction = Callable[[nn.Module, Tensor], dict[str, JacobianFactors]]
# From module, rule, input (N·S, ...) and output (N·S, ...) to the output that the network goes on with.
Report = Callable[[nn.Module, RuleFunction, Tensor, Tensor], Tensor]
PROJECTIONS = ("q", "k", "v")


def projection(
    position: int, module: nn.MultiheadAttention, inputs: Float[Tensor, "N S T D"]
) -> dict[str, JacobianFactors]:
    """The factors of the query (0), key (1) or value (2) projection: a linear layer in its block of rows."""
    block = (position, 3)
    factors: dict[str, JacobianFactors] = {"in_proj_bias": DirectVJP(sum_tokens, block=block)}
    if module.in_proj_weight is not None:
        return factors | {"in_proj_weight": OuterFactors(inputs, tokens, tokens, block=block)}
    return factors | {f"{PROJECTIONS[position]}_proj_weight": OuterFactors(inputs, tokens, tokens)}


def attend(
    report: Report,
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The output of `module.forward` for the same arguments, computed in steps that can be captured."""
    if query.dim() != 3:
        raise UnsupportedLayerError(
            f"Expected queries of nn.MultiheadAttention with a batch axis, got an unbatched query of shape "
            f"{tuple(query.shape)}. Pass queries, keys and values with one row per datum."
        )
    del is_causal  # a hint that attn_mask is causal; the mask itself is applied
    streams = [query, key, value] if module.batch_first else [x.transpose(0, 1) for x in (query, key, value)]
    query, key, value = (_project(report, module, i, x) for i, x in enumerate(streams))
    key, value = _extend(module, key, module.bias_k), _extend(module, value, module.bias_v)
    # (N, heads, T, E/heads)
    heads = [x.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for x in (query, key, value)]
    scores = heads[0] @ heads[1].transpose(-2, -1) / math.sqrt(heads[0].shape[-1])
    masks = _bias(scores[..., : streams[1].shape[1]], attn_mask, key_padding_mask)
    # the tokens that were added are hidden by no mask
    weights = (scores + functional.pad(masks, (0, scores.shape[-1] - masks.shape[-1]))).softmax(-1)
    output = module.out_proj((weights @ heads[2]).transpose(1, 2).flatten(2))
    output = output if module.batch_first else output.transpose(0, 1)
    if not need_weights:
        return output, None
    return output, weights.mean(1) if average_attn_weights else weights


def _project(report: Report, module: nn.MultiheadAttention, position: int, x: Tensor) -> Tensor:
    if module.in_proj_weight is not None:
        weight = module.in_proj_weight.chunk(3)[position]
    else:
        weight = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)[position]
    offset = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[position]
    output = functional.linear(x, weight, offset)
    return report(module, partial(projection, position), x, output)


def _extend(module: nn.MultiheadAttention, tokens: Tensor, learned: Tensor | None) -> Tensor:
    """Keys or values followed by the learned token of add_bias_kv and the zero of add_zero_attn."""
    if learned is not None:
        tokens = torch.cat([tokens, learned.expand(len(tokens), 1, -1)], 1)
    return functional.pad(tokens, (0, 0, 0, 1)) if module.add_zero_attn else tokens


def _bias(scores: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor:
    """The masks as one additive term, (..., keys); a boolean mask is true where attention is masked out."""
    total = torch.zeros_like(scores[:1, :1, :1])
    if attn_mask is not None:
        mask = attn_mask if attn_mask.dim() == 2 else attn_mask.reshape(scores.shape)
        total = total + _additive(mask, scores)
    if key_padding_mask is not None:
        total = total + _additive(key_padding_mask, scores)[:, None, None]
    return total


def _additive(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(scores.dtype)
    return torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device).masked_fill(mask, -math.inf)
