"""The decomposed forward of attention against torch's own."""

import pytest
import torch
from torch import nn

from covary.curvature.rules.attention import attend
from covary.errors import UnsupportedLayerError

MASKS = {
    "none": {},
    "causal": {"attn_mask": nn.Transformer.generate_square_subsequent_mask(4), "is_causal": True},
    "boolean": {"attn_mask": torch.eye(4, dtype=torch.bool)},
    "per head": {"attn_mask": torch.randn(6, 4, 4)},
    "padding": {"key_padding_mask": torch.tensor([[False, False, False, True]] * 3)},
    "weights per head": {"average_attn_weights": False},
    "no weights": {"need_weights": False},
}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", MASKS)
def test_the_steps_equal_the_fused_function(mask, bias, batch_first):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(4, 2, batch_first=batch_first, bias=bias)
    x = torch.randn((3, 4, 4) if batch_first else (4, 3, 4))
    arguments = {
        k: v.to(x.dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in MASKS[mask].items()
    }
    theirs, their_weights = module(x, x, x, **arguments)
    ours, our_weights = attend(lambda *reported: reported[-1], module, x, x, x, **arguments)
    torch.testing.assert_close(ours, theirs)
    if their_weights is None:
        assert our_weights is None
    else:
        torch.testing.assert_close(our_weights, their_weights)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "options", [{"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}]
)
def test_learned_and_zero_tokens_are_those_of_torch(options, masked):
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(4, 2, batch_first=True, **options), torch.randn(3, 4, 4)
    masks = {"attn_mask": torch.ones(4, 4).triu(1).bool(), "key_padding_mask": torch.rand(3, 4) > 0.8} if masked else {}
    ours, theirs = attend(lambda *reported: reported[-1], module, x, x, x, **masks), module(x, x, x, **masks)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their)


def test_an_unbatched_query_is_refused():
    x = torch.randn(4, 4)
    with pytest.raises(UnsupportedLayerError, match="unbatched query"):
        attend(lambda *reported: reported[-1], nn.MultiheadAttention(4, 2), x, x, x)
