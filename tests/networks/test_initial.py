import pytest
import torch
from torch import nn

from covary.errors import UnsupportedLayerError
from covary.networks import cnn, initialize, lenet, mlp

MAKERS = {"mlp": lambda **k: mlp(6, (5, 4), 3, **k), "cnn": lambda **k: cnn(1, 8, **k), "lenet": lenet}


def flat(network):
    return nn.utils.parameters_to_vector(network.parameters()).detach()


@pytest.mark.parametrize("name", MAKERS)
def test_equal_to_the_default_of_torch_under_the_same_seed(name):
    torch.manual_seed(11)
    expected = flat(MAKERS[name]())
    torch.manual_seed(12)
    assert torch.equal(flat(MAKERS[name](generator=torch.Generator().manual_seed(11))), expected)
    assert not torch.equal(flat(MAKERS[name](generator=torch.Generator().manual_seed(12))), expected)


def test_none_leaves_the_network_alone():
    network = nn.Sequential(nn.Linear(2, 2))
    before = flat(network)
    assert initialize(network, None) is network
    assert torch.equal(flat(network), before)


def test_layers_without_bias(generator):
    layer = nn.Linear(3, 2, bias=False)
    initialize(nn.Sequential(layer), generator)
    assert layer.weight.abs().max() <= 3**-0.5


def test_other_layers_are_refused(generator):
    with pytest.raises(UnsupportedLayerError, match="'1' is BatchNorm1d"):
        initialize(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), generator)
