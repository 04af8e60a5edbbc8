"""Images with the channels last, which would be transformed as images with many channels."""

import pytest
import torch

import covary
from covary.augment import Affine2d, Correlated, FiniteGroup
from covary.errors import ShapeError

AUGMENTS = {"affine": Affine2d(), "correlated": Correlated(Affine2d()), "finite": FiniteGroup()}


@pytest.mark.parametrize("shape", [(2, 28, 28, 1), (2, 32, 48, 3), (2, 5, 5, 4)])
@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_channels_last_are_refused_with_the_line_that_repairs_them(augment, shape):
    x, noise = torch.rand(shape), augment.sample_noise(torch.arange(2), 2, seed=0)
    with pytest.raises(ShapeError, match=r"which has the channels last. Pass x.permute\(0, 3, 1, 2\)"):
        augment.transform(x, noise)
    if shape[1] == shape[2]:
        assert augment.transform(x.permute(0, 3, 1, 2), noise).shape[2] == shape[-1]


@pytest.mark.parametrize("shape", [(2, 1, 28, 28), (2, 3, 4, 4), (2, 64, 3, 3), (2, 3, 28, 1), (2, 16, 8, 8)])
def test_other_images_and_features_are_accepted(shape):
    augment = Affine2d()
    assert augment.transform(torch.rand(shape), torch.zeros(2, 1, 6)).shape == (2, 1, *shape[1:])


def test_a_fit_refuses_them_before_it_starts():
    network = covary.Averaged(covary.networks.mlp(49, 4, 2), Affine2d(), 2)
    with pytest.raises(ShapeError, match="channels last"):
        covary.fit(network, (torch.rand(8, 7, 7, 1), torch.arange(8) % 2), callbacks=())
