import pytest
import torch
from torch import nn

from covary.curvature.rules import rule_for
from covary.errors import UnsupportedLayerError
from curvature.rules.rule_checks import check_rule


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_with_any_number_of_token_axes(shape, bias, generator):
    check_rule(nn.Linear(4, 3, bias=bias), torch.randn(2, 3, *shape, generator=generator), generator)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("padding", [None, 1])
def test_embeddings_with_repeated_and_padded_indices(shape, padding, generator):
    index = torch.randint(4, (2, 3, *shape), generator=generator)
    check_rule(nn.Embedding(4, 3, padding_idx=padding), index, generator)


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_embeddings_whose_gradient_is_not_the_derivative_are_refused(option):
    module = nn.Embedding(4, 3, **option)
    with pytest.raises(UnsupportedLayerError, match="without max_norm and scale_grad_by_freq"):
        rule_for(module).function(module, torch.zeros(1, 1, dtype=torch.int64))
