"""How well a network predicts, in the measures of its task."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..posterior import ece


class Scores(NamedTuple):
    """Accuracy and calibration error of classes, root mean squared error of numbers; None where it has no meaning."""

    accuracy: float | None = None
    ece: float | None = None
    rmse: float | None = None


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
        return Scores(rmse=_rmse(means, targets)) if means.numel() == targets.numel() else Scores()
    return _of_classes(means, targets, None)


def _of_classes(probabilities: Tensor, targets: Tensor, ignored: int | None) -> Scores:
    rows, labels = probabilities.movedim(1, -1).flatten(0, -2), targets.flatten()
    if ignored is not None:
        rows, labels = rows[labels != ignored], labels[labels != ignored]
    if not len(labels):
        return Scores()
    return Scores(accuracy=float((rows.argmax(1) == labels).double().mean()), ece=ece(rows, labels))


def _rmse(means: Tensor, targets: Tensor) -> float:
    return float((means.double() - targets.reshape(means.shape).double()).square().mean().sqrt())
