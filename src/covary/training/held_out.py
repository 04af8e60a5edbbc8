"""Test data: checked before the first step, and evaluated after the last."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._text import warn
from .._types import SampleAveraging
from ..batches import Batches, Data, IndexedBatch, as_batches, outputs_of
from ..data import Dataset
from ..distributed import in_each, own_part, place
from ..errors import CovaryError, ShapeError
from ..likelihoods import Likelihood
from ..models import Model
from ..records import Metrics
from .metrics import scores_of
from .schedule import TEST, seed_for
from .state import FitState

TEST_BATCH = 500


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


def held_out_batches(network: nn.Module, data: Data) -> Batches:
    """The batches of test data, of a `covary.data.Dataset` those of its test part, as a network needs them."""
    return as_batches(data.test if isinstance(data, Dataset) else data, TEST_BATCH).matching(network)


@torch.no_grad()
def measure(network: nn.Module, likelihood: Likelihood, data: Data, seed: int = 0) -> Metrics:
    """How well a network predicts data, a classification or not; of a `covary.data.Dataset`, its test part.

    Arguments:
        network: The network, averaged or plain, in evaluation mode.
        likelihood: The likelihood.
        data: The data.
        seed: The seed of the augmentation's noise.

    Example:
        >>> import torch, covary
        >>> from covary.training import measure
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> measure(torch.nn.Identity(), covary.Categorical(), (x, torch.tensor([0, 1]))).accuracy
        1.0
    """
    return _metrics(network, likelihood, [_predicted(network, likelihood, held_out_batches(network, data), seed)])


class _Predicted(NamedTuple):
    """Predicted means (N, ...) and targets (N, ...) of test data, and their log-likelihood."""

    means: Tensor
    targets: Tensor
    log_likelihood: float


def _predicted(network: nn.Module, likelihood: Likelihood, batches: Batches, seed: int) -> _Predicted:
    means, targets, log_likelihood = [], [], 0.0
    for batch in batches:
        found = outputs_of(network, batch, seed_for(seed, TEST))
        log_likelihood += float(likelihood.log_prob(found, batch.y))
        means.append(likelihood.mean(found))
        targets.append(batch.y)
    return _Predicted(torch.cat(means), torch.cat(targets), log_likelihood)


def _metrics(network: nn.Module, likelihood: Likelihood, parts: Sequence[_Predicted]) -> Metrics:
    """The metrics of test data, in one part or several."""
    labels = torch.cat([part.targets for part in parts])
    scores = scores_of(likelihood, torch.cat([part.means for part in parts]), labels)
    return Metrics(
        accuracy=scores.accuracy,
        nll=-sum(part.log_likelihood for part in parts) / len(labels),
        ece=scores.ece,
        num_data=len(labels),
        num_samples=network.num_samples if isinstance(network, SampleAveraging) else 1,
        rmse=scores.rmse,
        rmse_by_target=list(scores.rmse_by_target),
        num_targets=scores.num_targets,
    )


def tested(state: FitState, data: Data | None, seed: int) -> tuple[Metrics | None, list[str]]:
    """The test metrics, and a note if they cannot be computed: the trained network is not lost by that."""
    if data is None:
        return None, []
    parts = in_each(lambda: _shard(state, data, seed))
    reason = next((part for part in parts if isinstance(part, str)), "")
    if not reason:
        try:
            found = _metrics(state.network, state.likelihood, [part for part in parts if isinstance(part, _Predicted)])
            if math.isfinite(found.nll):
                return found, []
            reason = f"the negative log-likelihood is {found.nll}"
        except Exception as error:  # as below; all processes have the same parts
            reason = f"{type(error).__name__}: {error}"
    plain = "".join(letter if letter.isprintable() else " " for letter in reason)
    note = f"The test data could not be evaluated ({' '.join(plain.split()):.300}). The network is trained."
    warn(note)
    return None, [note]


@torch.no_grad()
def _shard(state: FitState, data: Data, seed: int) -> _Predicted | str | None:
    """The predictions of this process's shard of the test data; if they cannot be computed, the reason.

    The first process predicts data that cannot be divided, and the others nothing.
    """
    try:
        batches = held_out_batches(state.network, data)
        rank, world = place()
        if batches.num_data >= world:
            batches = own_part(batches)
        elif rank > 0:
            return None
        found = _predicted(state.network, state.likelihood, batches, seed)
    except Exception as error:  # of a network or data set of the user's, of any kind
        return f"{type(error).__name__}: {error}"
    return found if world == 1 else _Predicted(found.means.cpu(), found.targets.cpu(), found.log_likelihood)
