"""Small models for the tests of training: a few seconds at most."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

import covary
from covary.config import EvalConfig, FitConfig, HyperConfig, WeightConfig

# Steps of each kind after every epoch, on all data: the simplest schedule.
PLAIN = FitConfig(
    epochs=100,
    weights=WeightConfig(lr=5e-3, batch_size=250),
    hyper=HyperConfig(
        estimator="two_pass",
        burn_in=10,
        every=1,
        probes=1,
        num_data=None,
        num_samples=None,
        num_sets=1,
        num_moves=1,
        num_steps=2,
        num_prior_steps=4,
        augment_lr=0.1,
        augment_lr_min=0.005,
        prior_lr=0.1,
        prior_lr_min=0.01,
    ),
    # without error bars, which take longer than the steps of so short a fit
    evaluation=EvalConfig(num_evaluations=3, probes="exact", num_error_data=0),
)
QUICK = PLAIN.replace(
    epochs=4,
    weights={"batch_size": 8},
    hyper={"burn_in": 1, "num_prior_steps": 2, "num_data": 12},
    evaluation={"num_evaluations": 2},
)
# Hyper steps between weight steps, several in an epoch.
RUNNING = QUICK.replace(hyper={"estimator": "running", "fraction": 1.0, "num_data": 4})


@contextmanager
def in_float64() -> Iterator[None]:
    """What every test has, for fixtures of a whole module."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def points(num_data: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of the plane with the class of their distance from the origin: a rotation changes no label."""
    noise = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (num_data,), generator=noise)
    angle = 2 * torch.rand(num_data, generator=noise)
    x = torch.stack([angle.cos(), angle.sin()], 1) * (0.5 + 0.5 * y)[:, None]
    return x + 0.05 * torch.randn(num_data, 2, generator=noise), y


def averaged(num_samples: int = 3, seed: int = 0, width: float = 0.3) -> covary.Averaged:
    """A network that knows the distance from the origin before it is trained: widths are learned from the start."""
    network = covary.networks.mlp(2, 5, 2, generator=torch.Generator().manual_seed(seed))
    angles = torch.linspace(0, 2, 5)
    with torch.no_grad():
        network[1].weight.mul_(0.1).add_(torch.stack([angles.cos(), angles.sin()], 1))
        network[3].weight.mul_(0.1).add_(torch.tensor([[-3.0], [3.0]]))
        network[3].bias.copy_(torch.tensor([5.0, -5.0]))
    return covary.Averaged(network, covary.augment.Rotation2d(width), num_samples)


def relu_network() -> covary.Averaged:
    """One that knows the distance from the origin, as `averaged`, and that can die."""
    known = averaged(width=0.3)
    known.network[2] = nn.ReLU()
    with torch.no_grad():
        known.network[3].bias.mul_(1.4)
    return known


@torch.no_grad()
def kill(network: covary.Averaged) -> None:
    """Leave no unit of the hidden layer that is ever on: outputs are constant, and no gradient reaches it."""
    network.network[1].weight.zero_()
    network.network[1].bias.fill_(-10.0)


def everything(run: covary.Run) -> dict[str, torch.Tensor]:
    """Every tensor that a fit has changed."""
    modules = {"network": run.network, "likelihood": run.likelihood, "prior": run.prior}
    return {f"{owner}/{n}": t.detach().clone() for owner, m in modules.items() for n, t in m.state_dict().items()}
