"""Networks that take mean and deviation out of their images."""

import pytest
import torch
from torch import nn

from covary.errors import DataError
from covary.networks import Standardized, mlp


def test_the_network_sees_each_channel_standardized():
    x = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    network = mlp(18, 4, 2, generator=torch.Generator().manual_seed(1))
    mean, deviation = torch.tensor([0.5, -1.0]), torch.tensor([2.0, 0.25])
    seen = torch.stack([(x[:, c] - mean[c]) / deviation[c] for c in range(2)], 1)
    assert torch.equal(Standardized(network, mean, deviation)(x), network(seen))


def test_mean_and_deviation_are_saved_and_have_the_type_of_the_weights():
    network = Standardized(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).float(), torch.zeros(1), torch.ones(1))
    assert network.mean.dtype == network.deviation.dtype == torch.float32
    assert {"mean", "deviation"} <= network.state_dict().keys()
    assert not {"mean", "deviation"} & dict(network.named_parameters()).keys()


def test_a_deviation_of_nought_is_told():
    with pytest.raises(DataError, match="above 0"):
        Standardized(nn.Flatten(), torch.zeros(1), torch.zeros(1))
