"""Volumes of Gaussians, against torch's own densities."""

import torch
from torch import nn
from torch.distributions import MultivariateNormal

import covary
from covary.batches import as_batches
from covary.curvature.passes import curvature_pass
from covary.evidence.terms import evidence_terms, log_volume, prior_log_det


def test_the_log_volume_is_minus_the_log_density_at_the_mode():
    root = torch.randn(4, 4)
    precision = root @ root.T + torch.eye(4)
    density = MultivariateNormal(torch.zeros(4), precision_matrix=precision).log_prob(torch.zeros(4))
    torch.testing.assert_close(log_volume(precision.logdet(), 4), -density)


def test_the_log_determinant_of_the_prior_counts_every_entry():
    network = nn.Linear(4, 3)
    model = covary.Model(network, prior=covary.Prior(network, precision={"weight": 2.0, "bias": 3.0}))
    expected = torch.cat([torch.full((12,), 2.0), torch.full((3,), 3.0)]).log().sum()
    torch.testing.assert_close(prior_log_det(model), expected)


def test_terms_follow_the_prior_without_another_pass():
    model, data = covary.Model(nn.Linear(4, 3)), (torch.randn(6, 4), torch.arange(6) % 3)
    with torch.no_grad():
        statistics = curvature_pass(model, as_batches(data), covary.Curvature(), with_gradient=True)
        model.prior.log_precision.add_(0.4)
    torch.testing.assert_close(
        evidence_terms(model, statistics).log_evidence, covary.log_evidence(model, data).log_evidence
    )


def test_terms_at_given_weights_are_not_those_of_the_network():
    model, data = covary.Model(nn.Linear(4, 3)), (torch.randn(6, 4), torch.arange(6) % 3)
    with torch.no_grad():
        statistics = curvature_pass(model, as_batches(data), covary.Curvature())
        zero = {name: torch.zeros_like(weight) for name, weight in model.weights.items()}
    given, own = evidence_terms(model, statistics, weights=zero), evidence_terms(model, statistics)
    assert given.log_prior > own.log_prior
    assert given.log_volume == own.log_volume
