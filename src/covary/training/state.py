"""What a fit needs to go on: everything that a step changes, and nothing that a step can compute."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from ..config import FitConfig
from ..likelihoods import Likelihood
from ..models import Model, ModelParts
from ..networks.compiled import compiled
from ..priors import Prior
from ..records import Epoch, Evidence
from .hyper_state import HyperState, initial_hyper_state
from .learning_rates import first_rate, start_size
from .modes import evaluation_modules


@dataclass(frozen=True)
class Best:
    """The best state so far, with every parameter and buffer by name.

    By its evidence or, before the first evaluation, by the mean log-likelihood per datum of its epoch.
    """

    epoch: int
    log_likelihood: float
    evidence: Evidence | None
    tensors: Mapping[str, Tensor]


@dataclass
class FitState(ModelParts):
    """A model with the optimizers of weights and hyperparameters, and how far they have come."""

    hyper: HyperState  # the model, and what hyper steps change
    weight_optimizer: Optimizer  # of the weights
    # the mean log-likelihood per datum of the network before its first step, on the first batch
    untrained: float = -math.inf
    problem: str | None = None  # why training ended early; None where it did not
    epoch: int = 0  # epochs that are complete
    step: int = 0  # weight steps done in the epoch under way
    log_likelihood: float = 0.0  # the sum of log-likelihoods over the data seen in the epoch under way
    num_seen: int = 0  # how many data that were
    seconds: float = 0.0  # the time that earlier sessions took
    # seconds of weight steps, hyper steps and evaluations, by "weights", "hyper", "evaluation", "test"
    timings: dict[str, float] = field(default_factory=dict)
    # names of the modules that were in evaluation mode before the fit, and stay there
    evaluation_modules: tuple[str, ...] = ()
    stepped: nn.Module | None = None  # the network as weight steps run it, where it is compiled or on another device
    best: Best | None = None
    history: list[Epoch] = field(default_factory=list)  # one record per complete epoch

    @property
    def learns_likelihood(self) -> bool:
        """Whether the likelihood has parameters that are learned, such as the noise."""
        return any(parameter.requires_grad for _, parameter in self.likelihood.named_parameters())

    @property
    def model(self) -> Model:
        """Network, likelihood and prior as one value."""
        return self.hyper.model


def initial_state(network: nn.Module, likelihood: Likelihood, prior: Prior, config: FitConfig) -> FitState:
    """The state before the first step; modules are those that were passed, and are changed by training."""
    model = Model(network, likelihood, prior)
    hyper, optimizer = initial_hyper_state(model, config), _weight_optimizer(model, config)
    stepped = compiled(network) if config.weights.compile else None
    return FitState(hyper, optimizer, evaluation_modules=evaluation_modules(network), stepped=stepped)


def snapshot(state: FitState) -> dict[str, Tensor]:
    """Clones of every parameter and buffer, as `network/NAME`, `likelihood/NAME`, `prior/NAME`."""
    return {name: tensor.detach().clone() for name, tensor in _tensors(state).items()}


@torch.no_grad()
def restore(state: FitState, tensors: Mapping[str, Tensor]) -> None:
    """Set the state's parameters and buffers to those of a snapshot."""
    for name, tensor in _tensors(state).items():
        tensor.copy_(tensors[name])


def tensors_of(network: nn.Module, likelihood: Likelihood, prior: Prior) -> dict[str, Tensor]:
    """Every parameter and buffer that is saved, as `network/NAME`, `likelihood/NAME`, `prior/NAME`."""
    modules = {"network": network, "likelihood": cast(nn.Module, likelihood), "prior": prior}
    return {
        f"{owner}/{name}": tensor
        for owner, module in modules.items()
        for name, tensor in module.state_dict(keep_vars=True).items()
    }


def _tensors(state: FitState) -> dict[str, Tensor]:
    return tensors_of(state.network, state.likelihood, state.prior)


def _weight_optimizer(model: Model, config: FitConfig) -> Optimizer:
    weights = list(model.trained_weights.values())
    rates = [first_rate(weight, config) for weight in weights]
    groups = [
        {
            "params": [weight],
            "size": start_size(weight, config),
            "first": rate,
            "final": min(config.weights.lr_min, rate),
        }
        for weight, rate in zip(weights, rates, strict=True)
    ]
    if config.weights.optimizer == "sgd":
        return SGD(groups, lr=config.weights.lr, momentum=config.weights.momentum)
    return Adam(groups, lr=config.weights.lr)
