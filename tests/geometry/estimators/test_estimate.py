"""The error of a mean over probes against the scatter of means; the accuracy of estimates by hand."""

import pytest
import torch

from covary.errors import DataError
from covary.geometry import Estimate
from covary.geometry.estimators.estimate import accuracy, error_of_mean


def test_the_error_is_two_standard_deviations_of_the_mean(generator):
    """The half-width is 1.96 standard deviations for many probes, and wider for few."""
    root = torch.randn(40, 40, generator=generator)
    matrix = root + root.T
    matrix.fill_diagonal_(0)  # the variance of random signs is 2‖B‖² without the diagonal
    signs = torch.randint(0, 2, (20_000, 100, 40), generator=generator, dtype=torch.float32).mul_(2).sub_(1)
    means = torch.einsum("mgp,pq,mgq->m", signs, matrix.float(), signs).double() / 100
    error = error_of_mean(matrix.square().sum(), 100)
    torch.testing.assert_close(error, 1.976 * means.std(), rtol=0.03, atol=0)  # 20,000 samples know a width to 1 %
    assert error_of_mean(matrix.square().sum(), 4) > 1.2 * (100 / 4) ** 0.5 * error


def test_it_counts():
    estimates = [Estimate(torch.tensor([v, 2.0]), torch.tensor([0.5, 0.1]), 3) for v in (1.0, 1.4, 1.6, 0.0)]
    assert accuracy(estimates, torch.tensor([1.0, 2.0])) == (2, 4, 1.0, 3)
    with pytest.raises(DataError, match="at least one seed"):
        accuracy([], torch.tensor(1.0))
