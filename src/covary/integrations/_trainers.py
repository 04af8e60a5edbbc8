"""What the callbacks of other libraries' trainers check before training begins."""

import warnings
from collections.abc import Iterable

from torch import nn
from torch.optim import Optimizer

from ..errors import StructureError
from ..training import EvidenceLearner


def check_trainer(
    learner: EvidenceLearner, module: nn.Module, optimizers: Iterable[Optimizer], epochs: tuple[str, int | None]
) -> None:
    """Raise `StructureError` for the learner of another network; warn of other epochs, and of weight decay.

    Arguments:
        learner: The learner.
        module: The module that the trainer trains.
        optimizers: The optimizers of its weights.
        epochs: How the trainer calls its number of epochs, and that number; None or below 1 where it has none.
    """
    weights = {id(weight) for weight in learner.model.trained_weights.values()}
    if not weights <= {id(parameter) for parameter in module.parameters()}:
        raise StructureError(
            f"Expected the learner's network to be part of {type(module).__name__}, got another one. Make the learner "
            "with the network that it trains."
        )
    name, number = epochs
    if number != learner.config.epochs:
        has = f"has {name}={number}" if number is not None and number > 0 else f"is without {name}"
        warnings.warn(
            f"The trainer {has}, the learner epochs={learner.config.epochs}: its schedule ends with another epoch. "
            "Make the learner with as many epochs as will be trained.",
            stacklevel=3,
        )
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    decays = [group.get("weight_decay", 0.0) for group in groups if weights & set(map(id, group["params"]))]
    if any(decays):
        warnings.warn(
            f"The optimizer has weight_decay={max(decays):g} for weights whose decay is learned: the callback adds "
            "that of the prior. Pass weight_decay=0.0 to the optimizer.",
            stacklevel=3,
        )
