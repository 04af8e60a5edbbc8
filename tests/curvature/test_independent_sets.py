"""Factors from two independent sets of samples: without the bias of a mean over few samples."""

import pytest
import torch
from torch import nn

from covary import Averaged, Model, Prior, log_evidence
from covary.augment import Affine2d, FiniteGroup, Rotation2d
from covary.curvature import kfac
from covary.errors import DataError
from covary.hypergrad import direct, two_pass
from covary.linalg import Kron

SIZE, CLASSES = 6, 3


def network(*, image: bool = True) -> nn.Module:
    torch.manual_seed(0)
    features = SIZE * SIZE if image else 2
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 5), nn.Tanh(), nn.Linear(5, CLASSES))


@pytest.fixture
def images() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 1, SIZE, SIZE, generator=generator)
    return x, torch.tensor([0, 1, 2, 1])


def mean_traces(num_samples: int, num_sets: int, num_draws: int, data) -> torch.Tensor:
    """The mean over draws of the traces of A and B of each linear layer; noise is that of an index."""
    augment = Affine2d(("rotation", "shift_x"), initial_width=0.8)
    averaged = Averaged(network(), augment, num_samples, num_sets=num_sets)
    copies = data[0].repeat(num_draws, 1, 1, 1), data[1].repeat(num_draws)
    with torch.no_grad():
        blocks = kfac(averaged, copies).blocks
    factors = [matrix for name in ("network.1.weight", "network.3.weight") for matrix in blocks[name].tensors]
    return torch.stack([matrix.trace() for matrix in factors]) / num_draws


def test_two_sets_are_unbiased_where_one_is_not(images):
    """The mean over 1,000 draws of 4 samples against 256 samples: only the cross products come near."""
    truth = mean_traces(256, 1, 4, images)
    single, double = (mean_traces(4, sets, 1000, images) / truth - 1 for sets in (1, 2))
    assert single[0] > 0.2, "else there is no bias to remove"
    assert single[2] > 0.05
    assert double.abs().max() < 0.05


def test_cross_products_are_those_of_the_two_means(images):
    x, y = images
    augment = Affine2d(("rotation", "shift_x"), initial_width=0.8)
    averaged = Averaged(network(), augment, 6, num_sets=2)
    with torch.no_grad():
        block = kfac(averaged, (x, y), seed=3).blocks["network.1.weight"]
        noise = torch.cat(averaged._noise(torch.arange(4), 3), dim=1)
        samples = augment.transform(x, noise).flatten(2)
    first, second = samples[:, :3].mean(1), samples[:, 3:].mean(1)
    assert isinstance(block, Kron)
    assert block.estimated
    torch.testing.assert_close(block.input_cov, (first.T @ second + second.T @ first) / 2, rtol=1e-12, atol=1e-12)


def test_the_second_set_is_drawn_anew_and_the_first_as_before():
    index = torch.arange(5)
    one, two = (Averaged(network(), Affine2d(), size, num_sets=sets) for size, sets in ((4, 1), (8, 2)))
    (alone,), (first, second) = one._noise(index, 7), two._noise(index, 7)
    assert torch.equal(alone, first)
    assert not torch.isclose(first, second).any()


def test_without_scatter_sets_change_nothing(images):
    """Every set runs through the whole group, so its mean is exact."""
    augment = FiniteGroup("quarter_turns", 0.2)
    one, two = (Averaged(network(), augment, 8, num_sets=sets) for sets in (1, 2))
    x, y = images
    torch.testing.assert_close(one(x), two(x), rtol=1e-12, atol=1e-12)
    prior = Prior(one)
    terms = [log_evidence(Model(averaged, prior=prior), (x, y)).log_evidence for averaged in (one, two)]
    torch.testing.assert_close(terms[0], terms[1], rtol=1e-10, atol=0.0)


def test_two_pass_is_the_gradient_of_everything_at_once():
    """Two passes against direct differentiation, with negative eigenvalues clipped in both."""
    generator = torch.Generator().manual_seed(2)
    data = torch.randn(12, 2, generator=generator), torch.arange(12) % CLASSES
    averaged = Averaged(network(image=False), Rotation2d(0.7), 4, num_sets=2)
    prior = Prior(averaged)
    ours = two_pass(Model(averaged, prior=prior), data, "kron", share_probes=True, seed=5)
    theirs = direct(Model(averaged, prior=prior), data, seed=5)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-9, atol=1e-9)


def test_an_odd_number_of_samples_has_no_two_sets():
    with pytest.raises(DataError, match="got 2 with 5 samples"):
        Averaged(network(), Affine2d(), 5, num_sets=2)
