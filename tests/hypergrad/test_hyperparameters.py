"""Hyperparameters by name, and derivatives with respect to them."""

import torch
from torch import nn

import covary
from covary.hypergrad.hyperparameters import gradients, model_hyperparameters, prior_hyperparameters


def test_names_say_where_a_hyperparameter_is():
    inner = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    network = covary.Averaged(inner, covary.augment.Affine2d(("rotation",)), 2)
    model = covary.Model(network, covary.Categorical(learn_temperature=True))
    assert set(model_hyperparameters(model)) == {"augment.raw_widths", "likelihood.log_temperature"}
    assert set(prior_hyperparameters(model.prior)) == {"prior.log_precision"}


def test_what_is_not_learned_is_no_hyperparameter():
    model = covary.Model(nn.Linear(4, 3))
    model.prior.requires_grad_(False)
    assert model_hyperparameters(model) == prior_hyperparameters(model.prior) == {}


def test_gradients_are_zero_without_dependence_and_leave_grad_alone():
    used, unused = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.ones(3))
    found = gradients(used**2, {"used": used, "unused": unused})
    assert float(found["used"]) == 4
    assert not found["unused"].any()
    assert used.grad is unused.grad is None
    assert not gradients(torch.tensor(1.0), {"unused": unused})["unused"].any()
