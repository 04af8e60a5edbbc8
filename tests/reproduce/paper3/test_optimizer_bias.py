"""Wide residual networks: names, sizes, and batch normalization in evaluation mode."""

import pytest
import torch

from covary.errors import StructureError
from covary.reproduce.paper3.optimizer_bias import wide_resnet


def test_the_number_of_weights_is_that_of_the_published_network():
    """2.7 million of WRN-16-4 on CIFAR-10 (Zagoruyko and Komodakis, 2016)."""
    with torch.device("cpu"):
        network = wide_resnet("wide-resnet-16-4", 3, 10, 0)
    assert sum(weight.numel() for weight in network.parameters()) == pytest.approx(2.75e6, rel=0.01)


def test_images_become_classes_and_seeds_weights():
    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = wide_resnet("wide-resnet-10-1", 3, 7, 0).eval()
    assert network(x).shape == (3, 7)
    assert torch.equal(network(x), wide_resnet("wide-resnet-10-1", 3, 7, 0).eval()(x))
    assert not torch.allclose(network(x), wide_resnet("wide-resnet-10-1", 3, 7, 1).eval()(x))


def test_in_evaluation_mode_a_datum_does_not_depend_on_others():
    x = torch.randn(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    network = wide_resnet("wide-resnet-10-1", 1, 3, 0)
    assert not torch.allclose(network(x)[:1], network(torch.cat([x[:1], 3 * x[1:]]))[:1], atol=1e-4)  # the control
    network.eval()
    torch.testing.assert_close(network(x)[:1], network(x[:1]))


@pytest.mark.parametrize("name", ["wide-resnet-11-1", "wide-resnet-4-1", "wide-resnet-10-0", "resnet-8-8"])
def test_other_names_are_refused(name):
    with pytest.raises(StructureError, match="wide-resnet-10-1"):
        wide_resnet(name, 3, 10, 0)
