"""Measures of predicted probabilities, for reports: means over data, not sums."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, ShapeError

Probabilities = Tensor  # (N, C), rows sum to one; checked here, where users pass their own
Targets = Tensor  # (N,), int64


def nll(probabilities: Probabilities, targets: Targets) -> float:
    r"""Negative log-likelihood :math:`-\frac1N\sum_n \log p_{n y_n}`, a mean, lower is better; may be infinite.

    Example:
        >>> import torch
        >>> from covary.posterior import nll
        >>> round(nll(torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([0, 0])), 3)
        0.399
    """
    _check(probabilities, targets)
    return float(-probabilities.gather(1, targets[:, None]).double().log().mean())


def brier(probabilities: Probabilities, targets: Targets) -> float:
    r"""Brier score :math:`\frac1N\sum_{nc} (p_{nc} - [c = y_n])^2`, a mean between 0 and 2, lower is better.

    Example:
        >>> import torch
        >>> from covary.posterior import brier
        >>> brier(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))
        0.25
    """
    _check(probabilities, targets)
    one_hot = torch.nn.functional.one_hot(targets, probabilities.shape[1])
    return float((probabilities.double() - one_hot).square().sum(1).mean())


def ece(probabilities: Probabilities, targets: Targets, num_bins: int = 15) -> float:
    r"""Expected calibration error :math:`\sum_b \frac{N_b}{N} |\mathrm{accuracy}_b - \mathrm{confidence}_b|`.

    Data are binned by their largest probability into intervals (lower, upper] of equal width; between 0 and 1, lower
    is better.

    Arguments:
        probabilities: The probabilities, rows sum to one.
        targets: The classes.
        num_bins: The number of bins.

    Example:
        >>> import torch
        >>> from covary.posterior import ece
        >>> ece(torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1]))
        0.25
    """
    _check(probabilities, targets)
    if num_bins < 1:
        raise DataError(f"Expected num_bins of at least 1, got {num_bins}. Pass for example 15.")
    confidence, predicted = probabilities.double().max(1)
    # a mean over data of the gap, with the sign kept inside each bin: Σ_b |Σ_{n in b} (correct − confidence)| / N
    inner_edges = torch.arange(1, num_bins, dtype=torch.float64, device=confidence.device) / num_bins
    gaps = (predicted == targets).double() - confidence
    sums = gaps.new_zeros(num_bins).index_add(0, torch.bucketize(confidence, inner_edges), gaps)
    return float(sums.abs().sum() / len(targets))


def auroc(scores_positive: Float[Tensor, " N"], scores_negative: Float[Tensor, " M"]) -> float:
    r"""Area under the receiver operating characteristic: the probability that a positive outscores a negative.

    Exact: :math:`\frac1{NM}\sum_{nm} ([s_n > t_m] + \frac12 [s_n = t_m])`, by ranks, in O((N + M) log M).

    Arguments:
        scores_positive: The scores of those that should score high.
        scores_negative: The scores of the others.

    Example:
        >>> import torch
        >>> from covary.posterior import auroc
        >>> auroc(torch.tensor([0.9, 0.8]), torch.tensor([0.1, 0.8]))
        0.875
    """
    for name, scores in (("positive", scores_positive), ("negative", scores_negative)):
        if len(scores) == 0 or bool(scores.isnan().any()):
            raise DataError(
                f"Expected at least one {name} score and no NaN, got {len(scores)}, {int(scores.isnan().sum())} of "
                "them NaN. Drop those, or report nothing where a class is empty."
            )
    ordered = scores_negative.sort().values
    below = torch.searchsorted(ordered, scores_positive, right=False)
    up_to = torch.searchsorted(ordered, scores_positive, right=True)
    return float((below + up_to).double().mean() / (2 * len(ordered)))


def auroc_of_confidence(positive: Probabilities, negative: Probabilities) -> float:
    """Area under the curve of the largest probability as a score; 1 where it separates the two sets.

    Arguments:
        positive: The probabilities of data that should be confident: from the training distribution, or correct.
        negative: Those of data that should not be: from another distribution, or wrong.

    Example:
        >>> import torch
        >>> from covary.posterior import auroc_of_confidence
        >>> auroc_of_confidence(torch.tensor([[0.9, 0.1]]), torch.tensor([[0.4, 0.6]]))
        1.0
    """
    _check_probabilities(positive)
    _check_probabilities(negative)
    return auroc(positive.amax(1), negative.amax(1))


def _check(probabilities: Tensor, targets: Tensor) -> None:
    _check_probabilities(probabilities)
    num_data, num_outputs = probabilities.shape
    if targets.shape != (num_data,) or targets.dtype != torch.int64:
        raise ShapeError(
            f"Expected targets ({num_data},) of dtype torch.int64, one class per row of probabilities, got "
            f"{tuple(targets.shape)} of {targets.dtype}. Pass targets.long(), or targets.argmax(1) if one-hot."
        )
    if num_data == 0:
        raise DataError("Expected at least one datum, got none.")
    wrong = targets[(targets < 0) | (targets >= num_outputs)]
    if len(wrong):
        raise DataError(
            f"Expected classes in [0, {num_outputs - 1}], got {int(wrong[0])}, out of range. Renumber the targets."
        )


def _check_probabilities(probabilities: Tensor) -> None:
    if probabilities.ndim != 2 or not probabilities.is_floating_point():
        raise ShapeError(
            f"Expected probabilities (N, C) of a floating dtype, got {tuple(probabilities.shape)} of "
            f"{probabilities.dtype}. Pass what predict returns."
        )
    sums = probabilities.double().sum(-1)
    # rounding of float32 sums over thousands of classes stays far below this; logits do not
    if bool((probabilities >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-3):
        return
    raise DataError(
        "Expected rows of probabilities, at least 0, that sum to one. Pass what predict returns, not logits; for one "
        "binary output pass torch.cat([1 - p, p], 1)."
    )
