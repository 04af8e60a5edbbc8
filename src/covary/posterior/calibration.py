"""How good are predicted probabilities? Figures for reports: means over data, not sums."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, ShapeError

Probabilities = Tensor  # (N, C), rows sum to one; checked here, where users pass their own
Targets = Tensor  # (N,), int64


def nll(probabilities: Probabilities, targets: Targets) -> float:
    r"""Negative log-likelihood :math:`-\frac1N\sum_n \log p_{n y_n}`, a mean, lower is better; may be infinite."""
    _check(probabilities, targets)
    return float(-probabilities.gather(1, targets[:, None]).double().log().mean())


def brier(probabilities: Probabilities, targets: Targets) -> float:
    r"""Brier score :math:`\frac1N\sum_{nc} (p_{nc} - [c = y_n])^2`, a mean between 0 and 2, lower is better."""
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
    """
    _check(probabilities, targets)
    if num_bins < 1:
        raise DataError(f"num_bins must be at least 1; {num_bins} came. Pass for example 15.")
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
    """
    for name, scores in (("positive", scores_positive), ("negative", scores_negative)):
        if len(scores) == 0 or bool(scores.isnan().any()):
            raise DataError(
                f"auroc needs at least one {name} score and no NaN; {len(scores)} came, "
                f"{int(scores.isnan().sum())} of them NaN. Drop those, or report nothing where a class is empty."
            )
    ordered = scores_negative.sort().values
    below = torch.searchsorted(ordered, scores_positive, right=False)
    up_to = torch.searchsorted(ordered, scores_positive, right=True)
    return float((below + up_to).double().mean() / (2 * len(ordered)))


def auroc_of_confidence(positive: Probabilities, negative: Probabilities) -> float:
    """Area under the curve of the largest probability as a score; 1 where it parts the two sets without fault.

    Arguments:
        positive: The probabilities of data that should be confident: from the training distribution, or correct.
        negative: Those of data that should not be: from another distribution, or wrong.
    """
    _check_probabilities(positive)
    _check_probabilities(negative)
    return auroc(positive.amax(1), negative.amax(1))


def _check(probabilities: Tensor, targets: Tensor) -> None:
    _check_probabilities(probabilities)
    num_data, num_outputs = probabilities.shape
    if targets.shape != (num_data,) or targets.dtype != torch.int64:
        raise ShapeError(
            f"targets must be ({num_data},) of dtype torch.int64, one class per row of probabilities; "
            f"{tuple(targets.shape)} of {targets.dtype} came. Pass targets.long(), or targets.argmax(1) if one-hot."
        )
    if num_data == 0:
        raise DataError("There are no data; a mean needs at least one.")
    wrong = targets[(targets < 0) | (targets >= num_outputs)]
    if len(wrong):
        raise DataError(
            f"Class {int(wrong[0])} is out of range; expected [0, {num_outputs - 1}]. Renumber the targets."
        )


def _check_probabilities(probabilities: Tensor) -> None:
    if probabilities.ndim != 2 or not probabilities.is_floating_point():
        raise ShapeError(
            f"probabilities must be (N, C) and floating; {tuple(probabilities.shape)} of {probabilities.dtype} came. "
            "Pass what predict returns."
        )
    sums = probabilities.double().sum(-1)
    # rounding of float32 sums over thousands of classes stays far below this; logits do not
    if bool((probabilities >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-3):
        return
    raise DataError(
        "Each row of probabilities must be at least 0 and sum to one. Pass what predict returns, not logits; for one "
        "binary output pass torch.cat([1 - p, p], 1)."
    )
