"""The model as one value: its defaults, its weights, and its restriction to some of them."""

from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn

import covary
from covary.errors import StructureError
from covary.hypergrad.hyperparameters import model_hyperparameters, prior_hyperparameters
from covary.models import _likelihood, _prior, as_model
from covary.priors import mean_precisions


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def test_defaults_are_made_for_each_model():
    first, second = covary.Model(network()), covary.Model(network())
    assert isinstance(first.likelihood, covary.Categorical)
    assert first.likelihood is not second.likelihood
    assert first.prior.names == ("0.weight", "0.bias", "2.weight", "2.bias")


def test_weights_are_those_that_the_prior_covers():
    net = network()
    model = covary.Model(net, prior=covary.Prior(net, hyperparameters="0.*"))
    assert list(model.weights) == ["2.weight", "2.bias"]
    assert model.weights["2.weight"] is net[2].weight


def test_every_parameter_has_a_role():
    net = nn.Sequential(network(), nn.LayerNorm(3), nn.PReLU(), nn.Linear(3, 3))
    net[3].weight.requires_grad_(False)
    prior = covary.Prior(net, point="1.*", hyperparameters="2.weight")
    model = covary.Model(net, covary.Gaussian(learn_sigma_noise=False), prior)
    roles = model.roles
    assert {name for name, role in roles.items() if role == "integrated"} == set(model.weights)
    assert {name for name, role in roles.items() if role == "point"} == {"1.weight", "1.bias"}
    assert {name for name, role in roles.items() if role == "frozen"} == {"3.weight", "likelihood.log_sigma_noise"}
    learned = model_hyperparameters(model) | prior_hyperparameters(prior)
    assert {name for name, role in roles.items() if role == "hyperparameter"} == set(learned)
    assert set(learned) == {"2.weight", "prior.log_precision"}
    assert list(model.trained_weights) == [*model.weights, "1.weight", "1.bias"]


def test_a_prior_of_another_network_is_refused():
    with pytest.raises(StructureError, match="another network"):
        _ = covary.Model(network(), prior=covary.Prior(nn.Linear(2, 2))).weights


def test_a_model_is_replaced_and_not_changed():
    model, other = covary.Model(network()), network()
    changed = replace(model, network=other)
    assert changed.network is other
    assert (changed.likelihood, changed.prior) == (model.likelihood, model.prior)
    with pytest.raises(FrozenInstanceError):
        model.network = other


@pytest.mark.parametrize("structure", ["scalar", "layerwise", "diagonal", {"first": "0.*", "second": "2.*"}])
def test_a_restricted_model_keeps_precisions(structure):
    net = network()
    prior = covary.Prior(net, structure, 0.7)
    with torch.no_grad():
        prior.log_precision.add_(torch.linspace(0, 1, len(prior.log_precision)))
    part = covary.Model(net, prior=prior).restricted(["2.bias", "0.weight"])
    assert list(part.weights) == ["0.weight", "2.bias"]
    for name, shift in part.prior.shifts().items():
        torch.testing.assert_close(shift, prior.shifts()[name])
    assert {name for name, role in part.roles.items() if role == "point"} == {"0.bias", "2.weight"}
    assert mean_precisions(part.prior) == pytest.approx(mean_precisions(prior))


def test_all_weights_are_no_restriction():
    model = covary.Model(network())
    assert model.restricted(model.prior.names) is model


def test_weights_that_the_prior_does_not_cover_are_named():
    with pytest.raises(StructureError, match="'7.weight' is not covered"):
        covary.Model(network()).restricted(["7.weight"])


def test_a_network_is_accepted_as_a_model():
    net = network()
    model = as_model(net)
    assert model.network is net
    assert as_model(model) is model
    with pytest.raises(StructureError, match=r"torch.nn.Module or a covary.Model, got list"):
        as_model([net])


def test_a_network_gives_what_its_model_gives():
    net, data = network(), (torch.randn(6, 4), torch.arange(6) % 3)
    bare, whole = (covary.log_evidence(m, data).log_evidence for m in (net, covary.Model(net)))
    assert bare == whole


@pytest.mark.parametrize("likelihood", ["gaussian", covary.Gaussian, nn.CrossEntropyLoss()])
def test_what_is_no_likelihood_is_refused(likelihood):
    with pytest.raises(StructureError, match=r"Expected a likelihood, such as covary.Gaussian\(\), got"):
        _likelihood(likelihood)


def test_what_is_no_prior_is_refused():
    with pytest.raises(StructureError, match=r"Expected a covary.Prior, got 1.0. Pass covary.Prior\(network"):
        _prior(1.0)
