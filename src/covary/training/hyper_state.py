"""What hyper steps change: the hyperparameters with their optimizer, the statistics, and how far they have come."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from ..config import FitConfig
from ..hypergrad import RunningStatistics
from ..hypergrad import hyperparameters as hyper
from ..models import Model, ModelParts
from ..records import Evidence
from .widths import WidthLearning

# The gradient of a width is hundreds of times larger at the start than near the top: Adam's usual memory of a thousand
# steps would leave it standing on the way.
HYPER_BETAS = (0.9, 0.95)


@dataclass
class HyperState(ModelParts):
    """A model with the optimizer of its hyperparameters, and how far they have come."""

    model: Model  # network, likelihood and prior
    # of the hyperparameters, with a group for each learning rate; None where nothing is to learn
    optimizer: Optimizer | None
    learning: WidthLearning  # how far the learning of the widths has come
    num_data: int = 0  # N, the number of training data
    num_seen: int = 0  # the data that weight steps have read since the start, each as often as it was read
    # the statistics of the curvature that hyper steps update; None before the first
    running: RunningStatistics | None = None
    evidence: Evidence | None = None  # the estimate of the last hyper step
    # the mean log-likelihood per datum of the last epoch; None to measure it when it is needed
    log_likelihood: float | None = -math.inf
    constant: float = -math.inf  # the mean log-likelihood per datum of the best constant prediction

    @property
    def progress(self) -> float:
        """The epochs done so far; the epoch under way counts by its data seen."""
        num_data = max(self.num_data, 1)
        return self.num_seen // num_data + self.num_seen % num_data / num_data

    def hyperparameters(self) -> dict[str, nn.Parameter]:
        """Everything that the evidence teaches, by name."""
        return hyper.model_hyperparameters(self.model) | hyper.prior_hyperparameters(self.prior)


def initial_hyper_state(model: Model, config: FitConfig) -> HyperState:
    """The state before the first hyper step of a model, whose hyperparameters are changed by hyper steps."""
    return HyperState(model, _optimizer(model, config), WidthLearning(config.hyper.max_width_change))


def _optimizer(model: Model, config: FitConfig) -> Optimizer | None:
    """Adam that climbs: its gradients are those of log Z, negated where they are set."""
    found = hyper.model_hyperparameters(model)
    members: dict[Literal["augment", "prior", "likelihood"], list[nn.Parameter]] = {
        "augment": [p for name, p in found.items() if not name.startswith("likelihood.")],
        "likelihood": [p for name, p in found.items() if name.startswith("likelihood.")],
        "prior": list(hyper.prior_hyperparameters(model.prior).values()),
    }
    groups = [
        {"params": parameters} | dict(zip(("first", "final"), config.hyper.lr_range(name), strict=True))
        for name, parameters in members.items()
        if parameters
    ]
    return Adam(groups, lr=config.hyper.lr, betas=HYPER_BETAS) if groups else None


def optimizer_tensors(optimizer: Optimizer | None) -> dict[str, Tensor]:
    """The state of an optimizer as tensors on the CPU by NUMBER/NAME, the number being that of the parameter."""
    entries = {} if optimizer is None else optimizer.state_dict()["state"]
    return {
        f"{number}/{name}": torch.as_tensor(value, device="cpu")
        for number, values in entries.items()
        for name, value in values.items()
        if value is not None
    }


def set_optimizer_tensors(optimizer: Optimizer | None, tensors: Mapping[str, Tensor]) -> None:
    """Set the state of an optimizer to what `optimizer_tensors` returned; its learning rates stay."""
    if optimizer is None:
        return
    entries: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split("/", 1)
        entries.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
