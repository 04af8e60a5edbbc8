"""The evidence against what is known exactly, and its promises about data."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import covary
from cases import CASES, targets
from covary.errors import DataError, NotPositiveDefiniteError, StructureError
from oracles.evidence import (
    linear_gaussian_log_evidence,
    linear_gaussian_mode,
    linear_gaussian_mode_distance,
    quadrature_log_evidence,
)

SIGMA, PRECISION = 0.7, 2.0


def linear_gaussian():
    """A linear-Gaussian model at its mode, and its data."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 3), torch.randn(20)
    network = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        network.weight.copy_(linear_gaussian_mode(x, y, SIGMA, PRECISION))
    return network, covary.Gaussian(SIGMA), covary.Prior(network, "scalar", PRECISION), (x, y[:, None])


def image_model(num_samples: int = 4):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.2), num_samples)
    data = (torch.randn(7, 1, 4, 4), torch.randint(0, 3, (7,)))
    return network, covary.Categorical(), covary.Prior(network), data


@pytest.mark.parametrize("curvature", ["full", "kron", "kron-traced", "kernel"])
def test_the_linear_gaussian_evidence_is_exact(curvature):
    network, likelihood, prior, (x, y) = linear_gaussian()
    terms = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), curvature)
    exact = linear_gaussian_log_evidence(x, y[:, 0], torch.tensor(SIGMA), torch.tensor(PRECISION))
    torch.testing.assert_close(terms.log_evidence, exact, rtol=1e-8, atol=0)


def test_each_term_of_the_linear_gaussian_evidence_is_exact():
    network, likelihood, prior, (x, y) = linear_gaussian()
    terms = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), "full")
    residual = y[:, 0] - x @ network.weight[0].detach()
    log_likelihood = torch.distributions.Normal(0.0, SIGMA).log_prob(residual).sum()
    log_prior = torch.distributions.Normal(0.0, PRECISION**-0.5).log_prob(network.weight.detach()).sum()
    precision = x.T @ x / SIGMA**2 + PRECISION * torch.eye(3)
    volume = 1.5 * math.log(2 * math.pi) - 0.5 * torch.logdet(precision)
    torch.testing.assert_close(terms.log_likelihood, log_likelihood, rtol=1e-10, atol=0)
    torch.testing.assert_close(terms.log_prior, log_prior, rtol=1e-10, atol=0)
    torch.testing.assert_close(terms.log_volume, volume, rtol=1e-10, atol=0)
    assert terms.gradient_norm < 1e-12
    assert terms.num_data == 20


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_the_mode_correction_is_exact_away_from_the_mode(curvature):
    network, likelihood, prior, (x, y) = linear_gaussian()
    with torch.no_grad():
        network.weight.add_(torch.tensor([0.3, -0.2, 0.5]))
    plain = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), curvature)
    corrected = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), curvature, mode_correction=True)
    exact = linear_gaussian_log_evidence(x, y[:, 0], torch.tensor(SIGMA), torch.tensor(PRECISION))
    torch.testing.assert_close(corrected.log_evidence, exact, rtol=1e-8, atol=0)
    assert plain.log_evidence < exact - 0.1  # the control: without correction it is off
    assert plain.gradient_norm > 1.0


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_the_distance_from_the_mode_is_that_of_the_outputs(curvature):
    network, likelihood, prior, (x, y) = linear_gaussian()
    model = covary.Model(network, likelihood, prior)
    assert covary.log_evidence(model, (x, y), curvature).mode_distance < 1e-12
    with torch.no_grad():
        network.weight.add_(torch.tensor([0.3, -0.2, 0.5]))
    found = covary.log_evidence(model, (x, y), curvature).mode_distance
    exact = linear_gaussian_mode_distance(x, y[:, 0], SIGMA, PRECISION, network.weight[0].detach())
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=0)
    assert found > 1


def test_the_distance_from_the_mode_is_one_on_average_over_the_posterior():
    """Exactly, over the columns of a root of the posterior covariance in place of samples."""
    network, likelihood, prior, (x, y) = linear_gaussian()
    model, mode = covary.Model(network, likelihood, prior), network.weight.detach().clone()
    root = torch.linalg.cholesky(torch.linalg.inv(x.T @ x / SIGMA**2 + PRECISION * torch.eye(x.shape[1])))
    found = []
    for column in root.T:
        with torch.no_grad():
            network.weight.copy_(mode + column)
        found.append(covary.log_evidence(model, (x, y), "full").mode_distance)
    torch.testing.assert_close(torch.stack(found).sum(), torch.tensor(1.0), rtol=1e-8, atol=0)


class Twice(nn.Module):
    """Two weights, of which the data see the sum."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.first.weight, first)
        nn.init.constant_(self.second.weight, second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) + self.second(x)


def test_weights_that_no_output_depends_on_do_not_count_as_far_from_the_mode():
    """The prior alone pulls the difference of both weights to 0; blocks take a part of it for one of the outputs."""
    x = torch.ones(50, 1)
    network = Twice(1.0, -1.0)
    model = covary.Model(network, covary.Gaussian(1.0), covary.Prior(network, "scalar", 1.0))
    whole, blocks = (covary.log_evidence(model, (x, 0 * x), name).mode_distance for name in ("full", "diag"))
    assert whole < 1e-12
    torch.testing.assert_close(blocks, torch.tensor(1 / 51))  # 2 a s² over 2 a / (a + δ), s = δ / (a + δ), a = 50
    network.second.weight.data.neg_()
    assert covary.log_evidence(model, (x, 0 * x), "full").mode_distance > 100  # the control: the sum is 2 instead of 0


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_the_curvature_is_decomposed_once_with_its_eigenvectors(curvature, monkeypatch):
    """Eigenvalues alone, and then both for the distance from the mode, would take half as long again."""
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda matrix: pytest.fail("eigenvalues were computed alone"))
    data = torch.randn(30, 3), torch.arange(30) % 2
    assert covary.log_evidence(covary.networks.mlp(3, 4, 2), data, curvature).log_evidence.isfinite()


def test_logistic_regression_in_one_dimension_is_within_the_laplace_error():
    torch.manual_seed(0)
    x = torch.randn(60, 1)
    y = (torch.rand(60, 1) < torch.sigmoid(1.5 * x)).to(x.dtype)
    network, likelihood = nn.Linear(1, 1, bias=False), covary.Bernoulli()
    prior = covary.Prior(network, "scalar", 1.0)

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        log_prior = torch.distributions.Normal(0.0, 1.0).log_prob(theta)
        return likelihood.log_prob(theta * x, y) + log_prior

    best = torch.tensor(1.0)
    for reach in (5, 0.05):  # the joint density has one mode
        grid = torch.linspace(best - reach, best + reach, 201)
        best = grid[torch.stack([log_joint(theta) for theta in grid]).argmax()]
    with torch.no_grad():
        network.weight.fill_(best)
    terms = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), "full")
    exact = quadrature_log_evidence(log_joint, -4, 6, 2001)
    # the error of Laplace's method falls as 1/N; its leading term is about 5 κ₃²/24 + κ₄/8 ≲ 1/N
    assert abs(terms.log_evidence - exact) < 1 / 60
    assert abs(terms.log_evidence - exact) > 1e-6


@pytest.mark.parametrize("curvature", ["kron", "full", "diag"])
def test_the_evidence_does_not_depend_on_batches_or_order(curvature):
    network, likelihood, prior, (x, y) = image_model()
    index = torch.arange(7)
    whole = covary.log_evidence(covary.Model(network, likelihood, prior), (x, y), curvature)
    small = covary.log_evidence(covary.Model(network, likelihood, prior), covary.as_batches((x, y), 2), curvature)
    order = torch.tensor([4, 1, 6, 0, 3, 2, 5])
    turned = covary.log_evidence(
        covary.Model(network, likelihood, prior), (x[order], y[order], index[order]), curvature
    )
    for other in (small, turned):
        torch.testing.assert_close(other.log_evidence, whole.log_evidence, rtol=1e-11, atol=0)
        torch.testing.assert_close(other.gradient_norm, whole.gradient_norm, rtol=1e-10, atol=0)


def test_random_probes_do_not_depend_on_batches_or_order():
    network, likelihood, prior, (x, y) = image_model()
    order = torch.tensor([4, 1, 6, 0, 3, 2, 5])
    evidences = [
        covary.log_evidence(
            covary.Model(network, likelihood, prior), covary.as_batches(data, size), covary.Curvature(probes=2)
        ).log_evidence
        for data, size in (((x, y), 7), ((x, y), 3), ((x[order], y[order], order), 2))
    ]
    torch.testing.assert_close(evidences[1], evidences[0], rtol=1e-11, atol=0)
    torch.testing.assert_close(evidences[2], evidences[0], rtol=1e-11, atol=0)


def test_the_seed_decides_the_noise():
    network, likelihood, prior, data = image_model()
    values = [
        covary.log_evidence(covary.Model(network, likelihood, prior), data, seed=seed).log_evidence
        for seed in (0, 0, 1)
    ]
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_every_form_of_data_gives_the_same_evidence():
    network, likelihood, prior, (x, y) = image_model()
    dataset = TensorDataset(x, y)
    forms = [(x, y), dataset, DataLoader(dataset, batch_size=3), [(x[:4], y[:4]), (x[4:], y[4:])]]
    values = [covary.log_evidence(covary.Model(network, likelihood, prior), data).log_evidence for data in forms]
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=1e-11, atol=0)


@pytest.mark.parametrize("role", ["point", "hyperparameters"])
def test_the_evidence_is_that_of_integrated_weights(role):
    network, x = CASES["linear"].make(5)
    y = targets("categorical", 5)
    prior = covary.Prior(network, **{role: "0.*"})
    ours = covary.log_evidence(covary.Model(network, prior=prior), (x, y), "full")
    head = nn.Sequential(network[2])
    features = network[:2](x).detach()
    alone = covary.log_evidence(head, (features, y), "full")
    torch.testing.assert_close(ours.log_evidence, alone.log_evidence, rtol=1e-10, atol=0)
    assert set(ours.structures) == {"2.weight", "2.bias"}


def test_structures_are_reported():
    network, likelihood, prior, data = image_model()
    terms = covary.log_evidence(covary.Model(network, likelihood, prior), data)
    assert terms.structures["network.0.weight"] == "kron"
    assert terms.structures["network.0.bias"] == "dense"


def test_conditional_evidence_is_the_predictive_probability_of_the_rest():
    network, likelihood, prior, (x, y) = linear_gaussian()
    whole, given = (covary.Model(n, likelihood, prior) for n in (copy.deepcopy(network), network))
    with torch.no_grad():
        network.weight.copy_(linear_gaussian_mode(x[:12], y[:12, 0], SIGMA, PRECISION))
    found = covary.conditional_log_evidence(whole, (x, y), given, (x[:12], y[:12]), "full")
    posterior = x[:12].T @ x[:12] / SIGMA**2 + PRECISION * torch.eye(3)
    mean = x[12:] @ network.weight[0].detach()
    covariance = SIGMA**2 * torch.eye(8) + x[12:] @ torch.linalg.inv(posterior) @ x[12:].T
    exact = torch.distributions.MultivariateNormal(mean, covariance).log_prob(y[12:, 0])
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=0)


def test_choices_that_exclude_each_other_say_what_to_use():
    network, likelihood, _, data = image_model()
    diagonal = covary.Prior(network, "diagonal")
    with pytest.raises(StructureError, match="diagonal prior with curvature 'kron'.*layerwise.*'diag' or 'full'"):
        covary.log_evidence(covary.Model(network, likelihood, diagonal), data)
    covary.log_evidence(covary.Model(network, likelihood, diagonal), data, "diag")
    covary.log_evidence(covary.Model(network, likelihood, diagonal), data, "full")
    prior = covary.Prior(network)
    for curvature in ("full", "kernel"):
        with pytest.raises(StructureError, match="exact probes only.*probes='exact', or 'kron', .* or 'diag' with"):
            covary.log_evidence(covary.Model(network, likelihood, prior), data, covary.Curvature(curvature, 2))


def test_bad_data_are_named():
    network, likelihood, prior, (x, y) = image_model()
    with pytest.raises(DataError, match="empty"):
        covary.log_evidence(covary.Model(network, likelihood, prior), (x[:0], y[:0]))
    with pytest.raises(DataError, match="equally many inputs and targets, got 7 and 5"):
        covary.log_evidence(covary.Model(network, likelihood, prior), (x, y[:5]))
    broken = x.clone()
    broken[3, 0, 1, 1] = math.nan
    with pytest.raises(DataError, match="datum 3 are not finite"):
        covary.log_evidence(covary.Model(network, likelihood, prior), covary.as_batches((broken, y), 2))
    with pytest.raises(DataError, match="out of range|class"):
        covary.log_evidence(covary.Model(network, likelihood, prior), (x, y + 5))
    with pytest.raises(DataError, match="more than once.*list"):
        covary.log_evidence(covary.Model(network, likelihood, prior), (batch for batch in [(x, y)]))


def test_a_prior_for_another_network_is_refused():
    network, likelihood, _, data = image_model()
    other = covary.Prior(nn.Linear(3, 2))
    with pytest.raises(StructureError, match="made for another network"):
        covary.log_evidence(covary.Model(network, likelihood, other), data)


def test_factors_that_are_not_finite_name_their_block():
    network, likelihood, prior, data = image_model()
    with torch.no_grad():
        network.network[3].weight.fill_(1e200)
    with pytest.raises((NotPositiveDefiniteError, DataError), match=r"network\.|outputs"):
        covary.log_evidence(covary.Model(network, likelihood, prior), data)


def test_a_confident_network_gives_a_finite_evidence_and_gradient():
    network, likelihood, prior, data = image_model()
    with torch.no_grad():
        network.network[3].weight.mul_(400)
    confidence = network(data[0]).softmax(-1).max(-1).values
    assert bool((confidence > 1 - 1e-12).any())
    gradient = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), data, "kron")
    assert bool(gradient.terms.log_evidence.isfinite())
    assert all(bool(gradient.isfinite().all()) for gradient in gradient.values())
