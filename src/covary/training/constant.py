r"""The best constant prediction, which a network has to beat.

A constant output c has the log-likelihood :math:`\max_c \sum_n \log p(y_n | c)`; for a classification that is
:math:`\sum_n \log f_{y_n}` with the frequencies f of the classes. A network that does no better knows nothing of its
inputs: to it every transform leaves the labels as they are.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..batches import Batches, outputs_of_first
from ..errors import DataError
from ..likelihoods import Categorical, Likelihood
from ..models import Model
from .metrics import by_target

LEAST_GAIN = 0.1  # nats per datum by which a network must predict better than a constant
DEAD_GAIN = 2e-3  # nats per datum that are no gain over a constant
LARGE_NOISE = 0.5  # of the deviation of the targets, from which a regression may underfit
DIVERGED_LOSS = 1.0  # nats per datum by which training has made a network worse


def constant_log_likelihood(likelihood: Likelihood, targets: Tensor, shape: tuple[int, ...]) -> float:
    """The mean log-likelihood per datum of the best constant prediction.

    Arguments:
        likelihood: The likelihood, with its parameters as they are.
        targets: The targets of all data, (N, ...).
        shape: The shape of the outputs of one datum: (C,), with further axes of dense outputs.
    """
    constant = torch.zeros(1, *shape, dtype=torch.float64, device=targets.device, requires_grad=True)
    labels = targets.double() if targets.is_floating_point() else targets
    optimizer = torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -likelihood.log_prob(constant.expand(len(labels), *shape), labels) / len(labels)
        (constant.grad,) = torch.autograd.grad(value, [constant])
        return value.detach()

    with torch.enable_grad():
        optimizer.step(loss)
        return -float(loss())


def constant_of(model: Model, batches: Batches) -> Callable[[], float]:
    """A function to the mean log-likelihood per datum of the best constant prediction, with the likelihood as it is."""
    first = next(iter(batches))
    outputs = outputs_of_first(model.network, first)
    targets = torch.cat([batch.y for batch in batches])
    shape = outputs.shape[1:]
    model.likelihood.check(outputs.expand(len(targets), *shape), targets)  # before the first step
    if isinstance(model.likelihood, Categorical):
        _check_classes(targets, model.likelihood.ignore_index)
    return lambda: constant_log_likelihood(model.likelihood, targets, tuple(shape))


def _check_classes(targets: Tensor, ignored: int | None) -> None:
    """Raise `DataError` for targets of one class: a constant predicts them, and every transform leaves them."""
    found = targets.unique()
    found = found if ignored is None else found[found != ignored]
    if len(found) == 1:
        raise DataError(f"The targets are of one class alone ({int(found[0])}): expected two or more. Add another.")


def target_deviations(batches: Batches, means: Float[Tensor, "1 C ..."]) -> list[float]:
    """The standard deviation of each real target over all data and positions: the error of the best constant.

    Arguments:
        batches: The data.
        means: The predictive mean of a datum.
    """
    targets = torch.cat([batch.y for batch in batches]).double()
    found: list[float] = by_target(targets, targets, means).std(1, unbiased=False).tolist()
    return found


def noise_notes(noises: Sequence[float], deviations: Sequence[float]) -> list[str]:
    """A sentence where the learned noise is a large part of what a constant prediction leaves, else none.

    Arguments:
        noises: The standard deviation of the noise, of all targets or of each.
        deviations: The standard deviation of each target.
    """
    each = list(noises) * len(deviations) if len(noises) == 1 else noises
    large = [(noise, std) for noise, std in zip(each, deviations, strict=False) if noise > LARGE_NOISE * std]
    if not large:
        return []
    words = ", ".join(f"{noise:.3g} of {std:.3g}" for noise, std in large[:4]) + (", …" if len(large) > 4 else "")
    return [
        f"The learned noise is more than half of the standard deviation of the targets ({words}): they are mostly "
        "noise, or the network underfits. Raise epochs, weights.lr or hyper.burn_in, and compare the evidence."
    ]


def beats_constant(log_likelihood: float, constant: float) -> bool:
    """Whether a network knows something of its inputs.

    Arguments:
        log_likelihood: Its mean log-likelihood per datum, over the last epoch.
        constant: That of the best constant.
    """
    return log_likelihood > constant + LEAST_GAIN


def has_collapsed(log_likelihoods: Sequence[float], constant: float, num_epochs: int) -> bool:
    """Whether the last epochs all ended at the level of a constant.

    Arguments:
        log_likelihoods: The mean log-likelihood per datum of each epoch.
        constant: That of the best constant.
        num_epochs: How many epochs.
    """
    recent = log_likelihoods[-num_epochs:]
    return len(recent) == num_epochs and all(value < constant + DEAD_GAIN for value in recent)


def has_diverged(log_likelihood: float, constant: float, untrained: float) -> bool:
    """Whether training has made a network worse: it predicts worse than a constant, and than it did untrained.

    Arguments:
        log_likelihood: Its mean log-likelihood per datum.
        constant: That of the best constant.
        untrained: That of the network before its first step.
    """
    return not log_likelihood >= min(constant, untrained) - DIVERGED_LOSS


def is_constant(outputs: Float[Tensor, "N *outputs"]) -> bool:
    """Whether outputs do not depend on the input: they are equal for all data, but for rounding."""
    spread = float((outputs - outputs.mean(0)).abs().max())
    return spread <= 100 * torch.finfo(outputs.dtype).eps * float(outputs.abs().max())
