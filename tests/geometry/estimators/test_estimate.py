"""The error of a mean over probes against the scatter of means."""

import torch

from covary.geometry.estimators.estimate import error_of_mean


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
