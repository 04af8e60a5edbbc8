"""Test data: could they be evaluated after training? Checked before the first step."""

import torch
from torch import Tensor, nn

from ..batches import Data, IndexedBatch, outputs_of
from ..errors import CovaryError, ShapeError
from ..models import Model
from .record import held_out_batches
from .schedule import TEST, seed_for


@torch.no_grad()
def check_test(model: Model, data: Data | None, seed: int) -> None:
    """Raise an error for test data that could not be evaluated: their shapes, types, targets, and values not finite.

    Every datum is read. The network sees the first one of each batch.

    Arguments:
        model: The model, its network in evaluation mode.
        data: The test data, or None.
        seed: The seed of the augmentation's noise.
    """
    if data is None:
        return
    try:
        for batch in held_out_batches(model.network, data):
            one = IndexedBatch(*(part[:1] for part in batch))
            outputs = _first_outputs(model.network, one, seed)
            model.likelihood.check(outputs.expand(len(batch.x), *outputs.shape[1:]), batch.y)
    except CovaryError as error:
        raise type(error)(f"The test data cannot be used. {error}") from error


def _first_outputs(network: nn.Module, one: IndexedBatch, seed: int) -> Tensor:
    try:
        return outputs_of(network, one, seed_for(seed, TEST))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ShapeError(
            f"The network cannot process inputs of shape (N, {', '.join(map(str, one.x.shape[1:]))}) and type "
            f"{one.x.dtype} ({reason}). Pass inputs of the shape and type of the training data."
        ) from error
