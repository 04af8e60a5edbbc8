"""How well a network predicts, in the measures of its task, and the noise that it predicts."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ..batches import Batches, outputs_of
from ..likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..models import Model
from ..posterior import ece
from ..records import PredictedNoise

NOISE_DATA = 1000  # data that the predicted noise is summarized over


class Scores(NamedTuple):
    """Accuracy and calibration error of classes, root mean squared error of numbers; None where it has no meaning."""

    accuracy: float | None = None
    ece: float | None = None
    rmse: float | None = None
    rmse_by_target: tuple[float, ...] = ()
    num_targets: int | None = None


def scores_of(likelihood: Likelihood, means: Tensor, targets: Tensor) -> Scores:
    """The scores of predictions: classes, binary answers, counts or real numbers, one per datum or per position.

    Arguments:
        likelihood: The likelihood, which says what the targets are.
        means: Its predictive means, class probabilities (N, C, ...), or numbers.
        targets: The targets.
    """
    if isinstance(likelihood, Categorical):
        return _of_classes(means, targets, likelihood.ignore_index)
    if isinstance(likelihood, Bernoulli):
        answers, probabilities = targets.flatten().long(), means.flatten()
        return _of_classes(torch.stack([1 - probabilities, probabilities], 1), answers, None)
    if isinstance(likelihood, Poisson | Gaussian | HeteroscedasticGaussian) or targets.is_floating_point():
        return _of_numbers(means, targets) if means.numel() == targets.numel() else Scores()
    return _of_classes(means, targets, None)


def _of_classes(probabilities: Tensor, targets: Tensor, ignored: int | None) -> Scores:
    rows, labels = probabilities.movedim(1, -1).flatten(0, -2), targets.flatten()
    if ignored is not None:
        rows, labels = rows[labels != ignored], labels[labels != ignored]
    if not len(labels):
        return Scores()
    accuracy = float((rows.argmax(1) == labels).double().mean())
    return Scores(accuracy=accuracy, ece=ece(rows, labels), num_targets=len(labels))


def _of_numbers(means: Tensor, targets: Tensor) -> Scores:
    squares = by_target((means.double() - targets.reshape(means.shape).double()).square(), targets, means)
    each = squares.mean(1).sqrt().tolist()
    return Scores(rmse=float(squares.mean().sqrt()), rmse_by_target=tuple(each) if len(each) > 1 else ())


def by_target(
    values: Shaped[Tensor, "N ..."], targets: Shaped[Tensor, "_ ..."], means: Float[Tensor, "_ C ..."]
) -> Shaped[Tensor, "T M"]:
    """Values as a row for each of T targets, all data and positions in it.

    Arguments:
        values: One for each entry of the targets, in any shape with the data first.
        targets: Targets of some data; where outputs are flattened, their second axis is that of the T targets.
        means: Predictive means of some data, (N, C, ...), of which C are the targets else.
    """
    number = targets.shape[1] if means.ndim == 2 < targets.ndim else means.shape[1]
    return values.reshape(len(values), number, -1).transpose(0, 1).flatten(1)


@torch.no_grad()
def predicted_noise(model: Model, batches: Batches, seed: int) -> list[PredictedNoise]:
    """The noise of each target that a heteroscedastic network predicts for up to 1,000 data; else an empty list.

    Arguments:
        model: The model, its network in evaluation mode.
        batches: The data.
        seed: The seed of the choice of data and of the augmentation's noise.
    """
    if not isinstance(model.likelihood, HeteroscedasticGaussian):
        return []
    some = batches.subset(NOISE_DATA, seed) if batches.read is not None and batches.num_data > NOISE_DATA else batches
    variances, targets = [], []
    for batch in some:
        variances.append(model.likelihood.noise_variance(outputs_of(model.network, batch, seed)).double())
        targets.append(batch.y)
        if sum(map(len, targets)) >= NOISE_DATA:
            break
    rows = by_target(torch.cat(variances), torch.cat(targets), variances[0])
    return [_described(row) for row in rows]


def _described(variances: Float[Tensor, " M"]) -> PredictedNoise:
    deviations = variances.sqrt().sort().values
    last = len(deviations) - 1
    low, high = (float(deviations[round(part * last)]) for part in (0.05, 0.95))
    return PredictedNoise(float(variances.mean().sqrt()), low, high)
