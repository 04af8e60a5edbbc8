"""What a fit needs to go on: everything that a step changes, and nothing that a step can compute."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from ..config import FitConfig
from ..hypergrad import RunningStatistics
from ..hypergrad import hyperparameters as hyper
from ..likelihoods import Likelihood
from ..models import Model
from ..priors import Prior
from ..records import Epoch, Evidence
from .learning_rates import first_rate, start_size
from .modes import evaluation_modules
from .widths import WidthLearning

# The gradient of a width is hundreds of times larger at the start than near the top: Adam's usual memory of a thousand
# steps would leave it standing on the way.
HYPER_BETAS = (0.9, 0.95)


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
class FitState:
    """Network, likelihood and prior with their optimizers, and how far they have come.

    Arguments:
        network: The network.
        likelihood: The likelihood.
        prior: The prior.
        weight_optimizer: Of the weights.
        hyper_optimizer: Of the hyperparameters, with a group for each learning rate; None where nothing is to learn.
        learning: How far the learning of the widths has come.
        running: The statistics of the curvature that hyper steps update; None before the first.
        evidence: The estimate of the last hyper step in the epoch under way.
        num_data: N, the number of training data.
        constant: The mean log-likelihood per datum of the best constant prediction.
        problem: Why training ended early; None where it did not.
        epoch: Epochs that are complete.
        step: Weight steps done in the epoch under way.
        log_likelihood: The sum of log-likelihoods over the data seen in the epoch under way.
        num_seen: How many data that were.
        seconds: The time that earlier sessions took.
        timings: Seconds of weight steps, hyper steps and evaluations, by "weights", "hyper", "evaluation".
        evaluation_modules: Names of the modules that were in evaluation mode before the fit, and stay there.
        best: The best evaluated state.
        history: One record per complete epoch.
    """

    network: nn.Module
    likelihood: Likelihood
    prior: Prior
    weight_optimizer: Optimizer
    hyper_optimizer: Optimizer | None
    learning: WidthLearning
    running: RunningStatistics | None = None
    evidence: Evidence | None = None
    num_data: int = 0
    constant: float = -math.inf
    problem: str | None = None
    epoch: int = 0
    step: int = 0
    log_likelihood: float = 0.0
    num_seen: int = 0
    seconds: float = 0.0
    timings: dict[str, float] = field(default_factory=dict)
    evaluation_modules: tuple[str, ...] = ()
    best: Best | None = None
    history: list[Epoch] = field(default_factory=list)

    @property
    def progress(self) -> float:
        """The epochs done so far; the epoch under way counts by its data seen."""
        return self.epoch + self.num_seen / max(self.num_data, 1)

    @property
    def learns_likelihood(self) -> bool:
        """Whether the likelihood has parameters that are learned, such as the noise."""
        return any(parameter.requires_grad for _, parameter in self.likelihood.named_parameters())

    @property
    def model(self) -> Model:
        """Network, likelihood and prior as one value."""
        return Model(self.network, self.likelihood, self.prior)

    def hyperparameters(self) -> dict[str, nn.Parameter]:
        """Everything that the evidence teaches, by name."""
        return hyper.model_hyperparameters(self.model) | hyper.prior_hyperparameters(self.prior)


def initial_state(network: nn.Module, likelihood: Likelihood, prior: Prior, config: FitConfig) -> FitState:
    """The state before the first step; modules are those that were passed, and are changed by training."""
    model = Model(network, likelihood, prior)
    optimizers = _weight_optimizer(model, config), _hyper_optimizer(model, prior, config)
    learning, modes = WidthLearning(config.hyper.max_width_change), evaluation_modules(network)
    return FitState(network, likelihood, prior, *optimizers, learning, evaluation_modules=modes)


def snapshot(state: FitState) -> dict[str, Tensor]:
    """Copies of every parameter and buffer, as `network/NAME`, `likelihood/NAME`, `prior/NAME`."""
    return {name: tensor.detach().clone() for name, tensor in _tensors(state).items()}


@torch.no_grad()
def restore(state: FitState, tensors: Mapping[str, Tensor]) -> None:
    """The state's parameters and buffers set to those of a snapshot."""
    for name, tensor in _tensors(state).items():
        tensor.copy_(tensors[name])


def tensors_of(network: nn.Module, likelihood: Likelihood, prior: Prior) -> dict[str, Tensor]:
    """Every parameter and buffer that is saved, as `network/NAME`, `likelihood/NAME`, `prior/NAME`."""
    modules = {"network": network, "likelihood": cast(nn.Module, likelihood), "prior": prior}
    return {
        f"{room}/{name}": tensor
        for room, module in modules.items()
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


def _hyper_optimizer(model: Model, prior: Prior, config: FitConfig) -> Optimizer | None:
    """Adam that climbs: its gradients are those of log Z, negated where they are set."""
    found = hyper.model_hyperparameters(model)
    members: dict[Literal["augment", "prior", "likelihood"], list[nn.Parameter]] = {
        "augment": [p for name, p in found.items() if not name.startswith("likelihood.")],
        "likelihood": [p for name, p in found.items() if name.startswith("likelihood.")],
        "prior": list(hyper.prior_hyperparameters(prior).values()),
    }
    groups = [
        {"params": parameters} | dict(zip(("first", "final"), config.hyper.lr_range(name), strict=True))
        for name, parameters in members.items()
        if parameters
    ]
    return Adam(groups, lr=config.hyper.lr, betas=HYPER_BETAS) if groups else None
