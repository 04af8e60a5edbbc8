"""Densities per unit of coordinates and of volume: modes, masses and Jeffreys' prior, against integrals."""

import math
from functools import partial

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

import covary
from covary.errors import NotPositiveDefiniteError, NumericalError, StructureError
from covary.geometry import (
    CARTESIAN,
    Density,
    Jeffreys,
    Metric,
    Point,
    affine,
    elementwise,
    euclidean_metric,
    exponential,
    find_mode,
    inverse_softplus,
    jeffreys,
    lebesgue_log_density,
    logarithm,
    riemannian_log_density,
)
from covary.geometry.charts.polar import polar
from covary.linalg import Dense, Diagonal


def gamma_log_density(theta: Tensor) -> Tensor:
    """Two independent gammas of shapes 3 and 5, rates 2 and 1; modes per unit of θ at 1 and 4."""
    shape, rate = torch.tensor([3.0, 5.0]), torch.tensor([2.0, 1.0])
    return (shape * rate.log() - torch.lgamma(shape) + (shape - 1) * theta.log() - rate * theta).sum()


def curved(theta: Tensor) -> Dense:
    root = torch.stack(
        [torch.stack([1 + theta[0], 0.3 * theta[1]]), torch.stack([theta[0] * 0, 2 + theta[1].square()])]
    )
    return Dense(root @ root.T)


METRICS = {"euclidean": euclidean_metric(), "curved": Metric("curved", curved)}
CHARTS = {
    "affine": affine(torch.tensor([[1.0, 0.5], [-0.3, 2.0]]).double(), torch.tensor([0.1, -1.0]).double()),
    "logarithm": logarithm(),
    "inverse softplus": inverse_softplus(),
    "root": elementwise(torch.sqrt, torch.square, name="root"),
    "polar": polar(2, torch.ones(1, dtype=torch.float64)),
}
START = torch.tensor([0.7, 2.5], dtype=torch.float64)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("name", CHARTS)
def test_the_density_per_volume_is_a_function_of_the_point(name, metric):
    chart = CHARTS[name]
    psi = chart.forward(START)
    expected = gamma_log_density(START) - 0.5 * torch.logdet(metric.matrix(START))
    torch.testing.assert_close(riemannian_log_density(gamma_log_density, metric)(START), expected, rtol=1e-12, atol=0)
    found = riemannian_log_density(gamma_log_density, metric, chart)(psi)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)
    assert abs(lebesgue_log_density(gamma_log_density, chart)(psi) - gamma_log_density(START)) > 0.1
    # the object at one point says the same
    density = Density(gamma_log_density(START), Point(START)).to(chart)
    torch.testing.assert_close(lebesgue_log_density(gamma_log_density, chart)(psi), density.components)
    torch.testing.assert_close(found, density.under(metric.at(Point(START, CARTESIAN)).to(chart)))


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("name", CHARTS)
def test_the_mode_per_volume_is_the_same_point_in_every_chart(name, metric):
    chart = CHARTS[name]
    mode = find_mode(riemannian_log_density(gamma_log_density, metric), START)
    found = find_mode(riemannian_log_density(gamma_log_density, metric, chart), chart.forward(START))
    torch.testing.assert_close(chart.inverse(found), mode, rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "affine"])
def test_the_mode_per_unit_of_coordinates_moves(name):
    chart = CHARTS[name]
    mode = find_mode(gamma_log_density, START)
    torch.testing.assert_close(mode, torch.tensor([1.0, 4.0]), rtol=1e-12, atol=0)
    moved = chart.inverse(find_mode(lebesgue_log_density(gamma_log_density, chart), chart.forward(START)))
    assert (moved - mode).abs().max() > 0.05
    if name == "logarithm":  # of a gamma, at shape / rate instead of (shape − 1) / rate
        torch.testing.assert_close(moved, torch.tensor([1.5, 5.0]), rtol=1e-12, atol=0)


def test_an_affine_chart_moves_no_mode():
    chart = CHARTS["affine"]
    found = chart.inverse(find_mode(lebesgue_log_density(gamma_log_density, chart), chart.forward(START)))
    torch.testing.assert_close(found, torch.tensor([1.0, 4.0]), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["logarithm", "root"])
def test_both_densities_have_mass_one(name):
    chart = CHARTS[name]
    (low, high) = (-12.0, 5.0) if name == "logarithm" else (1e-9, 8.0)

    def log_density(theta: Tensor) -> Tensor:
        return (3 * math.log(2) - math.lgamma(3) + 2 * theta.log() - 2 * theta).sum()

    metric = Metric("growing", lambda theta: Diagonal(1 + theta.square()))

    def per_unit(psi: float) -> float:
        return float(lebesgue_log_density(log_density, chart)(torch.tensor([psi])).exp())

    def per_volume(psi: float) -> float:
        coordinates = torch.tensor([psi])
        volume = metric.to(chart).matrix(coordinates).sqrt()
        return float(riemannian_log_density(log_density, metric, chart)(coordinates).exp() * volume)

    assert quad(per_unit, low, high)[0] == pytest.approx(1, abs=1e-7)
    assert quad(per_volume, low, high, limit=50)[0] == pytest.approx(1, abs=1e-7)


def test_find_mode_leaves_saddles_and_refuses_what_has_no_mode():
    def two_hills(theta: Tensor) -> Tensor:
        return -((theta[0].square() - 1).square()) - theta[1].square()

    found = find_mode(two_hills, torch.tensor([1e-3, 0.4]))
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0]))
    with pytest.raises(NumericalError, match="a mode within"):
        find_mode(lambda theta: -torch.exp(-theta).sum(), torch.zeros(2))  # its supremum is at infinity
    for start in (torch.zeros(2), torch.tensor([0.0, 0.3])):  # on the ridge, whose top is a saddle
        with pytest.raises(NumericalError, match="Expected a maximum"):
            find_mode(two_hills, start)
    with pytest.raises(NumericalError, match="Expected a maximum"):
        find_mode(lambda theta: 0 * theta.sum() + 1, torch.ones(2))  # flat
    with pytest.raises(NumericalError, match="no growth"):
        find_mode(lambda theta: theta.sum() * math.nan, torch.zeros(2))


# Jeffreys' prior.


def sum_over_outcomes(probabilities, theta: Tensor) -> Tensor:
    """The Fisher information Σ_y p_y ∇log p_y ∇log p_yᵀ, by its definition."""
    scores = torch.func.jacrev(lambda t: probabilities(t).log())(theta)
    return torch.einsum("y,yp,yq->pq", probabilities(theta), scores, scores)


def two_outcomes(logit: Tensor) -> Tensor:
    return torch.cat([logit.sigmoid(), 1 - logit.sigmoid()])


def classes(temperature: float, logits: Tensor) -> Tensor:
    return (torch.cat([logits, torch.zeros(1)]) / temperature).softmax(0)


@pytest.mark.parametrize(
    ("likelihood", "num_outputs", "probabilities"),
    [
        (covary.Bernoulli(), 1, two_outcomes),
        (covary.Categorical(), 3, partial(classes, 1.0)),
        (covary.Categorical(temperature=2.5), 4, partial(classes, 2.5)),
    ],
)
def test_the_fisher_metric_is_the_covariance_of_scores(likelihood, num_outputs, probabilities):
    size = num_outputs if isinstance(likelihood, covary.Bernoulli) else num_outputs - 1
    theta = torch.linspace(-0.7, 1.3, size)
    fisher = jeffreys(likelihood, num_outputs).metric.matrix(theta)
    torch.testing.assert_close(fisher, sum_over_outcomes(probabilities, theta))


def test_bernoulli_has_volume_pi_and_mass_one():
    prior = jeffreys(covary.Bernoulli())
    assert prior.is_proper
    assert prior.volume == pytest.approx(math.pi)
    mass, _ = quad(lambda logit: float(prior.log_density(torch.tensor([logit])).exp()), -80, 80, limit=200)
    assert mass == pytest.approx(1, abs=1e-9)


def test_in_probabilities_it_is_the_beta_density_of_one_half():
    prior = jeffreys(covary.Bernoulli())
    chart = elementwise(torch.sigmoid, torch.logit, name="probability")
    p = torch.tensor([0.2])
    beta = -0.5 * (p * (1 - p)).log().sum() - math.log(math.pi)
    torch.testing.assert_close(lebesgue_log_density(prior.log_density, chart)(p), beta)
    # made from the Fisher information of probabilities, 1 / p(1 − p), it is the same prior; a flat one is not
    direct = Jeffreys(Metric("direct", lambda q: Diagonal(1 / (q * (1 - q)))), math.pi)
    torch.testing.assert_close(direct.log_density(p), beta)
    torch.testing.assert_close(prior.to(chart).log_density(p), beta)
    flat = lebesgue_log_density(lambda logit: 0 * logit.sum(), chart)(p)
    assert abs(flat) > 0.1


@pytest.mark.parametrize("logit", [-3.0, 0.0, 2.0])
def test_it_is_uniform_under_its_own_volume(logit):
    prior = jeffreys(covary.Bernoulli())
    constant = torch.tensor(-math.log(math.pi))
    for chart in (CARTESIAN, exponential(), elementwise(torch.sigmoid, torch.logit, name="probability")):
        density = riemannian_log_density(prior.log_density, prior.metric, chart)
        torch.testing.assert_close(density(chart.forward(torch.tensor([logit]))), constant)
    assert abs(prior.log_density(torch.tensor([logit])) - constant) > 0.5  # per unit of the logit it is not


def test_several_outputs_multiply():
    one, two = jeffreys(covary.Bernoulli()), jeffreys(covary.Bernoulli(), 2)
    theta = torch.tensor([0.3, -1.0])
    torch.testing.assert_close(two.log_density(theta), one.log_density(theta[:1]) + one.log_density(theta[1:]))


def test_categorical_has_the_mass_of_a_dirichlet():
    """Three classes, V = π^{3/2} / Γ(3/2) = 2π: a trapezium rule over both logits; tails beyond ±15 hold 2e-3."""
    prior = jeffreys(covary.Categorical(), 3)
    assert prior.volume == pytest.approx(2 * math.pi)
    assert jeffreys(covary.Categorical(temperature=3.0), 2).volume == pytest.approx(math.pi)
    logits = torch.arange(-15.0, 15.1, 1.5)
    mass = 1.5**2 * sum(prior.log_density(pair).exp() for pair in torch.cartesian_prod(logits, logits))
    assert float(mass) == pytest.approx(1, abs=4e-3)


def test_gaussian_is_improper_and_says_so():
    prior = jeffreys(covary.Gaussian(sigma_noise=0.5), 2)
    assert not prior.is_proper
    theta = torch.tensor([3.0, -1.0])
    torch.testing.assert_close(prior.log_volume(theta), torch.tensor(2 * math.log(2)))  # flat in the mean
    with pytest.raises(NumericalError, match="improper"):
        prior.log_density(theta)


def test_a_gaussian_of_unknown_scale_made_by_hand():
    """F = diag(1, 2) / σ² in (μ, σ): the prior is √2 / σ², and flat in log σ but for 1/σ."""
    fisher = Metric("location and scale", lambda theta: Diagonal(torch.tensor([1.0, 2.0]) / theta[1].square()))
    prior = Jeffreys(fisher, math.inf)
    theta = torch.tensor([0.3, 1.7])
    torch.testing.assert_close(prior.log_volume(theta), torch.tensor(0.5 * math.log(2) - 2 * math.log(1.7)))


class Unknown:
    """A likelihood of the user's own."""

    check = log_prob = log_prob_each = root_product = mean = named_parameters = staticmethod(lambda *arguments: None)


def test_priors_that_cannot_be():
    with pytest.raises(StructureError, match="at least 2 outputs"):
        jeffreys(covary.Categorical(), 1)
    with pytest.raises(StructureError, match="above 0"):
        Jeffreys(euclidean_metric(), 0.0)
    with pytest.raises(NotPositiveDefiniteError, match="singular"):
        Jeffreys(Metric("singular", lambda theta: Diagonal(0 * theta)), 1.0).log_density(torch.zeros(1))

    with pytest.raises(StructureError, match="got Unknown"):
        jeffreys(Unknown())
