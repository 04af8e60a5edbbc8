"""Links against integrals: quadrature for the sigmoid, many samples for the softmax."""

import pytest
import torch

from covary.errors import NotPositiveDefiniteError, StructureError
from covary.posterior.predictive import centered_variance, laplace_bridge, logit_samples, output_samples, probit_logits
from oracles.posterior import dirichlet_laplace, sigmoid_integral, softmax_integral


def random_gaussian(size: int, scale: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    root = torch.randn(size, size, generator=generator)
    return torch.randn(size, generator=generator), scale * root @ root.T / size


@pytest.mark.parametrize("mean", [-3.0, -0.5, 0.0, 1.0, 4.0])
@pytest.mark.parametrize("variance", [0.0, 0.3, 2.0, 20.0])
def test_probit_is_close_to_the_sigmoid_integral(mean, variance):
    ours = float(probit_logits(torch.tensor([[mean]]), torch.tensor([[variance]])).sigmoid())
    assert ours == pytest.approx(sigmoid_integral(mean, variance), abs=0.02)


def test_links_agree_with_softmax_where_there_is_no_variance():
    mean = torch.tensor([[1.0, -2.0, 0.5]])
    torch.testing.assert_close(probit_logits(mean, torch.zeros_like(mean)), mean)
    zero = torch.zeros(1, 3, 3)
    torch.testing.assert_close(output_samples(mean, zero, torch.randn(1, 4, 3)), mean[:, None].expand(-1, 4, -1))


@pytest.mark.parametrize("alpha", [[3.0, 5.0, 1.5], [2.0, 7.0], [0.5, 0.7, 0.9, 4.0, 20.0]])
def test_bridge_inverts_the_laplace_approximation_of_a_dirichlet(alpha):
    alpha = torch.tensor(alpha)
    mean, covariance = dirichlet_laplace(alpha)
    ours = laplace_bridge(mean[None], covariance[None])[0]
    torch.testing.assert_close(ours, alpha / alpha.sum(), rtol=1e-9, atol=0)


def test_bridge_does_not_see_what_the_softmax_ignores(generator):
    """A constant added to all outputs, with variance and covariance of its own, changes no probability."""
    mean, covariance = random_gaussian(4, 0.5, generator)
    shift = 0.3 * torch.randn(4, generator=generator)
    moved = covariance + shift[:, None] + shift[None] + 2.0  # covariance of f + c·1 for a c that goes with f
    ours = laplace_bridge(mean[None], covariance[None])
    torch.testing.assert_close(laplace_bridge(mean[None] + 7, moved[None]), ours, rtol=1e-9, atol=1e-12)
    assert (centered_variance(moved[None]) > 0).all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_probit_is_moderately_close_to_the_softmax_integral(scale, generator):
    mean, covariance = random_gaussian(5, scale, generator)
    exact = softmax_integral(mean, covariance, 200_000, generator)
    probit = probit_logits(mean[None], covariance.diagonal()[None]).softmax(1)[0]
    assert (probit - exact).abs().max() < 0.05 * (1 + scale)  # an approximation without a bound


@pytest.mark.parametrize("alpha", [[3.0, 5.0, 1.5], [2.0, 7.0], [1.5, 2.5, 1.2, 4.0, 20.0]])
def test_bridge_is_moderately_close_to_the_integral_of_a_dirichlet_like_gaussian(alpha, generator):
    errors = []
    for scale in (1, 16):
        mean, covariance = dirichlet_laplace(scale * torch.tensor(alpha))
        regular = covariance + 1e-9 * torch.eye(len(alpha))  # singular along the constant, which the softmax ignores
        exact = softmax_integral(mean, regular, 400_000, generator)
        errors.append(float((laplace_bridge(mean[None], covariance[None])[0] - exact).abs().max()))
    # a Dirichlet becomes Gaussian as it narrows, and the error falls with its variance
    assert errors[0] < 0.06
    assert errors[1] < errors[0] / 6
    # the control: variances that do not go with the mean, for which the docstring promises nothing
    equal = covariance.trace() / len(alpha) * torch.eye(len(alpha))
    apart = laplace_bridge(mean[None], equal[None])[0] - softmax_integral(mean, equal, 400_000, generator)
    assert len(alpha) == 2 or apart.abs().max() > 0.05


def test_bridge_survives_large_logits_in_float32():
    mean = torch.tensor([[150.0, -150.0, 0.0]], dtype=torch.float32)
    found = laplace_bridge(mean, torch.eye(3, dtype=torch.float32)[None])
    assert found.isfinite().all()
    torch.testing.assert_close(found.sum(1), torch.ones(1, dtype=torch.float32))


def test_samples_have_the_covariance_of_the_outputs(generator):
    """The identity as noise gives the root, whose square is the covariance, also where that is singular."""
    mean, covariance = random_gaussian(4, 1.0, generator)
    covariance[:, 0] = covariance[0] = 0.0
    root = output_samples(torch.zeros(1, 4), covariance[None], torch.eye(4)[None])[0]
    torch.testing.assert_close(root @ root.T, covariance, rtol=1e-9, atol=1e-12)
    marginal = logit_samples(mean[None], covariance.diagonal()[None], torch.ones(1, 1, 4))
    torch.testing.assert_close(marginal[0, 0], mean + covariance.diagonal().sqrt())


def test_bridge_refuses_one_class_and_no_variance():
    with pytest.raises(StructureError, match="two classes or more"):
        laplace_bridge(torch.zeros(1, 1), torch.ones(1, 1, 1))
    with pytest.raises(NotPositiveDefiniteError, match="link='probit'"):
        laplace_bridge(torch.zeros(1, 3), torch.zeros(1, 3, 3))
