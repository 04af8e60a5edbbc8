"""The evidence in charts: against known evidences, invariant where it must be, and not where it cannot."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd.functional import hessian as reverse_hessian
from torch.nn.utils.parametrizations import orthogonal, weight_norm

import covary
from chart_cases import METRICS, NAMES, SIZE, make_charts, make_metric, start
from covary import geometry
from covary.errors import ChartError, NotPositiveDefiniteError, StructureError
from covary.evidence import chart_evidence, parametrization_of
from covary.evidence.invariant import check_form
from oracles.evidence import linear_gaussian_log_evidence, linear_gaussian_mode

EXACT = {"rtol": 1e-8, "atol": 1e-8}
SIGMA, PRECISION = 0.5, 1.5


def linear_model(seed: int, offset: float = 0.0):
    """A linear-Gaussian model with six weights between 0.3 and 2, its data, and their evidence in closed form."""
    generator = torch.Generator().manual_seed(seed)
    x, true = torch.randn(30, SIZE, generator=generator), start(seed)
    y = x @ true + SIGMA * torch.randn(30, generator=generator)
    network = nn.Linear(SIZE, 1, bias=False)
    with torch.no_grad():
        network.weight.copy_(linear_gaussian_mode(x, y, SIGMA, PRECISION).clamp(0.3, 2.0) + offset)
    exact = linear_gaussian_log_evidence(x, y, torch.tensor(SIGMA), torch.tensor(PRECISION))
    model = covary.Model(network, covary.Gaussian(SIGMA), covary.Prior(network, "scalar", PRECISION))
    return model, (x, y[:, None]), exact


def classifier(num_samples: int = 0):
    """A small network after a few steps, far from a mode, averaged over transforms where samples are asked for."""
    generator = torch.Generator().manual_seed(0)
    network: nn.Module = covary.networks.mlp(16, 3, 2, generator=generator)
    if num_samples:
        network = covary.Averaged(network, covary.augment.Affine2d(initial_width=0.2), num_samples)
    x = torch.randn(9, 1, 4, 4, generator=generator)
    prior = covary.Prior(network, precision={"*weight": 2.0, "*bias": 0.5})
    return network, covary.Categorical(), prior, (x, torch.arange(9) % 2)


def polar_chart(network, prior):
    return geometry.network_chart(prior.weights(network), {"*.weight": geometry.polar_of})


@given(st.sampled_from(NAMES), st.sampled_from(["ggn", "hessian"]), st.integers(0, 10**6))
def test_in_every_chart_it_is_the_known_evidence(name, curvature, seed):
    """Off the mode, too: with its correction the evidence of a linear-Gaussian model is exact anywhere."""
    model, data, exact = linear_model(seed, offset=0.05)
    found = chart_evidence(model, data, make_charts(seed)[name], curvature=curvature)
    torch.testing.assert_close(found.proper.log_evidence + found.mode_correction, exact, **EXACT)
    log_det = make_charts(seed)[name].log_det(model.network.weight.detach()[0])
    naive = found.naive.log_evidence + found.mode_correction
    torch.testing.assert_close(naive - exact, log_det, **EXACT)  # the control
    assert abs(log_det) > 1e-3


@pytest.mark.parametrize("num_samples", [0, 3])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_network_in_polar_coordinates(num_samples, batch_size):
    """Far from a mode, each term and the gradient's norm are those of `log_evidence` with the full GGN."""
    network, likelihood, prior, data = classifier(num_samples)
    model = covary.Model(network, likelihood, prior)
    known = covary.log_evidence(model, data, "full", seed=3)
    corrected = covary.log_evidence(model, data, "full", seed=3, mode_correction=True)
    chart = polar_chart(network, prior)
    found = chart_evidence(model, covary.as_batches(data, batch_size), chart, seed=3)
    assert known.gradient_norm > 1
    assert found.proper.num_data == known.num_data
    for name in ("log_likelihood", "log_prior", "log_volume", "gradient_norm", "log_evidence"):
        torch.testing.assert_close(getattr(found.proper, name), getattr(known, name), **EXACT)
    torch.testing.assert_close(found.mode_correction, corrected.mode_correction, **EXACT)
    assert abs(found.naive.log_evidence - known.log_evidence) > 1


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("curvature", ["ggn", "hessian"])
def test_under_any_metric_charts_agree(kind, curvature):
    model, data, _ = linear_model(1)
    metric = make_metric(kind, 1)
    terms = [
        chart_evidence(model, data, chart, metric, curvature=curvature).proper for chart in make_charts(1).values()
    ]
    for name in ("log_likelihood", "log_prior", "log_volume", "gradient_norm", "log_evidence"):
        values = torch.stack([getattr(one, name) for one in terms])
        torch.testing.assert_close(values, values[:1].expand_as(values), **EXACT)


def test_the_hessian_is_that_of_the_log_joint():
    network, likelihood, prior, (x, y) = classifier()
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=500, tolerance_grad=1e-12, tolerance_change=0)

    def loss(theta=None):
        weights = geometry.unflatten(theta, dict(network.named_parameters()))
        outputs = torch.func.functional_call(network, weights, (x,))
        return -likelihood.log_prob(outputs, y) - prior.log_density(weights)

    def closure():
        optimizer.zero_grad()
        value = loss(geometry.flatten(dict(network.named_parameters())))
        value.backward()
        return value

    optimizer.step(closure)
    theta = geometry.flatten(dict(network.named_parameters())).detach()
    expected = -0.5 * torch.logdet(reverse_hessian(loss, theta) / (2 * torch.pi))
    for chart in (geometry.CARTESIAN, polar_chart(network, prior)):
        found = chart_evidence(covary.Model(network, likelihood, prior), (x, y), chart, curvature="hessian").proper
        torch.testing.assert_close(found.log_volume, expected, **EXACT)
        assert found.gradient_norm < 1e-5


def test_rescaled_units_have_another_evidence_until_their_scale_is_canonical():
    generator = torch.Generator().manual_seed(0)
    network = covary.networks.mlp(3, 4, 2, nn.ReLU, generator=generator)
    x = torch.randn(12, 3, generator=generator)
    rescaled = deepcopy(network)
    with torch.no_grad():
        rescaled[1].weight.mul_(3.0)
        rescaled[1].bias.mul_(3.0)
        rescaled[3].weight.div_(3.0)
    data, likelihood = (x, torch.arange(12) % 2), covary.Categorical()
    torch.testing.assert_close(rescaled(x), network(x))

    def evidence(model):
        return chart_evidence(covary.Model(model, likelihood), data).proper.log_evidence

    assert abs(evidence(rescaled) - evidence(network)) > 1
    canonical = [evidence(geometry.canonical_scale(model)) for model in (network, rescaled)]
    torch.testing.assert_close(canonical[0], canonical[1], **EXACT)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_weight_norm_is_no_chart():
    """It has a parameter more per row, so that its evidence is another one, as Table 1 of paper 3 prints it."""
    network, likelihood, prior, data = classifier()
    known = chart_evidence(covary.Model(network, likelihood, prior), data).proper
    for place in (1, 3):
        weight_norm(network[place])
    normalized = covary.Prior(network)
    assert normalized.num_params == prior.num_params + 3 + 2
    found = chart_evidence(covary.Model(network, likelihood, normalized), data).naive
    torch.testing.assert_close(found.log_likelihood, known.log_likelihood, **EXACT)
    assert abs(found.log_evidence - known.log_evidence) > 1


def test_mistakes_are_told():
    network, likelihood, prior, data = classifier()
    with pytest.raises(StructureError, match="among ggn, hessian, got 'kron'"):
        check_form("kron")
    with torch.no_grad():
        network[3].weight.mul_(30)
    with pytest.raises(NotPositiveDefiniteError, match="posterior's precision"):
        chart_evidence(covary.Model(network, likelihood, prior), data, curvature="hessian")
    with torch.no_grad():
        network[1].weight[0] = 0
    with pytest.raises(ChartError, match="norm above 0"):
        chart_evidence(covary.Model(network, likelihood, prior), data, polar_chart(network, prior))


def test_parametrizations_are_found():
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    assert parametrization_of(network) == "Cartesian"
    orthogonal(network[2])
    weight_norm(network[0])
    weight_norm(network[1], name="weight")
    assert parametrization_of(network) == "WeightNorm of 0.weight, 1.weight; Orthogonal of 2.weight"


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_parametrizations_of_the_older_kind_are_found():
    network = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 3)), nn.utils.spectral_norm(nn.Linear(3, 3)))
    assert parametrization_of(network) == "WeightNorm of 0.weight; SpectralNorm of 1.weight"
    assert parametrization_of(network[0]) == "WeightNorm of weight"
