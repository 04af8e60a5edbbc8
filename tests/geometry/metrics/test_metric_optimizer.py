"""Metrics read from optimizers, against the denominators of the steps that they take."""

import pytest
import torch
from torch import nn

from covary.errors import NotPositiveDefiniteError, ShapeError, StructureError
from covary.geometry import flat_metric, optimizer_metric

SETTINGS = {
    "adam": lambda p: torch.optim.Adam(p, 0.01, betas=(0.0, 0.9), eps=1e-3),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, betas=(0.0, 0.9), eps=1e-3, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, betas=(0.0, 0.9), eps=1e-3, weight_decay=0.0),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-3),
    "centered": lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-3, centered=True),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_step_is_the_gradient_divided_by_the_metric(name, generator):
    """Without momentum, the step that an optimizer takes is −rate · M⁻¹ gradient."""
    network = nn.Linear(3, 2)
    optimizer = SETTINGS[name](network.parameters())
    for _ in range(4):
        before = {n: p.detach().clone() for n, p in network.named_parameters()}
        for parameter in network.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    metric = optimizer_metric(optimizer, network)
    for n, parameter in network.named_parameters():
        # `centered` and plain moments are those after the step, as the step itself uses them
        torch.testing.assert_close((before[n] - parameter) * metric[n], 0.01 * parameter.grad, rtol=1e-6, atol=1e-12)


def test_optimizers_without_a_metric():
    network = nn.Linear(3, 2)
    with pytest.raises(StructureError, match="got SGD"):
        optimizer_metric(torch.optim.SGD(network.parameters(), 0.1), network)
    with pytest.raises(StructureError, match="at least one step"):
        optimizer_metric(torch.optim.Adam(network.parameters()), network)


def test_a_metric_in_the_order_of_the_weights():
    weights = dict(nn.Linear(3, 2).named_parameters())
    entries = torch.arange(1.0, 7.0).view(2, 3)
    flat = flat_metric({"bias": torch.tensor(9.0), "weight": entries, "other": torch.tensor(-1.0)}, weights)
    torch.testing.assert_close(flat, torch.tensor([1.0, 2, 3, 4, 5, 6, 9, 9]))


def test_metrics_that_are_none():
    weights = dict(nn.Linear(3, 2).named_parameters())
    one = torch.tensor(1.0)
    with pytest.raises(StructureError, match="none for 'bias'"):
        flat_metric({"weight": one}, weights)
    with pytest.raises(ShapeError, match="one number or shape"):
        flat_metric({"weight": torch.ones(5), "bias": one}, weights)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(NotPositiveDefiniteError, match="above 0"):
            flat_metric({"weight": one, "bias": torch.tensor([1.0, bad])}, weights)
