r"""Do the data have a symmetry? Log Bayes factors from short continuations of a run.

For each symmetry the run goes on from where it ended, with all widths fixed: as learned, with this one at 0 (*none*),
and with this one complete (*full*). Weights and prior are trained on, and the evidence is evaluated under the noise and
probes that all continuations of a repeat share. With the log evidences ℓ of repeat r,

.. math:: B = \overline{\ell_r(\text{learned}) - \ell_r(\text{none})}, \qquad
    F = \overline{\ell_r(\text{full}) - \ell_r(\text{none})}.

Repeats differ in the order of data, in the noise of training, and in samples and probes of the evaluation. The error of
a mean of R differences is :math:`e^2 = v/R + d^2`, with v their variance, or the mean one of all differences where that
is larger (R is small), and d what the second half of the epochs changed in their mean: a continuation that has not
ended says little.

A factor decides if it is above 3 nats (odds of 20 to 1), above twice its error, and above G, the nats that the losing
side gained in the second half of its epochs. Weights that are far from their mode favor what is learned soonest, by
more than the error says; where the losing side would lead if it gained as much again and the other side stood still,
the run is *undertrained*, and says nothing yet. Of an amount, such as an angle, B decides if the learned width is not
negligible, else F; the answer is also yes if F says so, and no only if both do. Of a probability F decides: a finite
symmetry holds or does not. It is undecided if no continuation has an evidence above the log-likelihood of the best
constant prediction: to a network that knows nothing of its inputs, everything is symmetric.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from statistics import fmean, variance
from typing import NamedTuple, cast

import torch
from torch import nn

from .._text import require_choice
from ..augment.amounts import num_elements, set_full, set_none
from ..batches import Data, as_batches, outputs_of_first
from ..config import FitConfig
from ..data.dataset import Augmented
from ..errors import NumericalError, StructureError
from ..noise import fold
from ..records import Symmetry, Verdict
from ..records.words import strength
from .constant import constant_log_likelihood
from .loop import train
from .modes import set_training
from .run import Run
from .widths import augmentation_of

MIN_NATS, MIN_ERRORS = 3.0, 2.0
NO_BETTER, UNDERTRAINED = "no better than a constant", "undertrained"
MOST_REPEATS = 1000
LEAST_EPOCHS, PART = 4, 4  # a quarter of the epochs of the run
Progress = Callable[[str, float], None]


class Ended(NamedTuple):
    """The log evidence at the end of a continuation, and that half-way."""

    log_evidence: float
    half_way: float


class Factor(NamedTuple):
    """A log Bayes factor."""

    value: float  # the factor, in nats
    error: float  # its standard error
    gain: float = 0.0  # G, the nats that the losing side gained in the second half of its epochs; at least 0

    @property
    def sign(self) -> int:
        """1 or -1 where it decides, else 0."""
        decides = abs(self.value) > max(MIN_NATS, MIN_ERRORS * self.error, self.gain)
        return (1 if self.value > 0 else -1) if decides else 0


class Reference(NamedTuple):
    """What all symmetries are compared by."""

    variance: float  # the mean variance of the differences between continuations
    constant: float  # the log-likelihood of the best constant prediction


def verdict(
    run: Run,
    data: Data | Augmented,
    names: Sequence[str] | None = None,
    *,
    epochs: int | None = None,
    num_repeats: int = 2,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Return for each symmetry whether the data have it: yes, no or undecided, with log Bayes factors in nats.

    The run is not changed. Of K symmetries, 2 K + 1 continuations are trained for each repeat.

    Arguments:
        run: The run, with an augmentation.
        data: Its training data, as for `fit`.
        names: The symmetries; all by default.
        epochs: Epochs of each continuation, at least 2; by default a quarter of those of the run, at least 4.
        num_repeats: Continuations of each kind with seeds of their own, 2 to 1,000.
        progress: Called with the current step and the fraction of the work that is done.

    Example:
        >>> import torch, covary
        >>> x = torch.randn(40, 2)
        >>> network = covary.Averaged(covary.networks.mlp(2, 8, 2), covary.augment.Rotation2d(0.5), num_samples=4)
        >>> run = covary.fit(network, (x, (x.norm(dim=1) > 1).long()), epochs=4, callbacks=())
        >>> [found.name for found in covary.verdict(run, (x, (x.norm(dim=1) > 1).long()), epochs=2)]
        ['rotation']
    """
    chosen, config = _checked_names(run, names), _settings(run, epochs)
    if not 2 <= num_repeats <= MOST_REPEATS:
        raise StructureError(
            f"Expected num_repeats of at least 2, which give an error, and at most {MOST_REPEATS:,}, got {num_repeats}."
        )
    states = ["learned", *(f"{kind} {name}" for name in chosen for kind in ("none", "full"))]
    found: dict[str, list[Ended]] = {state: [] for state in states}
    for repeat in range(num_repeats):
        for number, state in enumerate(states):
            if progress is not None:
                progress(state, (repeat * len(states) + number) / (num_repeats * len(states)))
            found[state].append(_continued(run, data, config.replace(seed=_seed(config, repeat)), state))
    by_name = {symmetry.name: symmetry for symmetry in run.symmetries}
    shape = run.record.samples.shape if run.record.samples is not None else None
    reference = Reference(_pooled(found, chosen), constant_log_evidence(run, data))
    return [_decided(by_name[name], shape, found, reference) for name in chosen]


def difference(first: Sequence[Ended], second: Sequence[Ended], pooled: float) -> Factor:
    """The mean of the differences of repeats, with its error and the gain of the losing side.

    Arguments:
        first: The continuations of one kind.
        second: Those of the other, in the same order.
        pooled: The mean variance of all such differences.
    """
    ends = [a.log_evidence - b.log_evidence for a, b in zip(first, second, strict=True)]
    halves = [a.half_way - b.half_way for a, b in zip(first, second, strict=True)]
    spread, drift = max(variance(ends), pooled) / len(ends), fmean(ends) - fmean(halves)
    losing = second if fmean(ends) > 0 else first
    gain = fmean(each.log_evidence - each.half_way for each in losing)
    return Factor(fmean(ends), (spread + drift**2) ** 0.5, max(gain, 0.0))


def answer(
    learned: Factor, full: Factor, *, finite: bool, negligible: bool, informed: bool = True
) -> tuple[str, Factor, str | None]:
    """The answer, the factor that it is from, and why it is undecided where that is not its size.

    Arguments:
        learned: B, of the learned width against none.
        full: F, of the complete symmetry against none.
        finite: Whether the symmetry is an element of a finite group, or a mirror.
        negligible: Whether the learned width is negligible.
        informed: Whether an evidence is above that of a constant prediction.
    """
    used = [full] if finite or negligible else [learned, full]
    if not informed:
        return "undecided", used[0], NO_BETTER
    if (found := _by_sign(used)) is not None:
        return *found, None
    trained = _by_sign([factor._replace(gain=0.0) for factor in used])
    return "undecided", used[0], None if trained is None else UNDERTRAINED


def _by_sign(factors: Sequence[Factor]) -> tuple[str, Factor] | None:
    """Yes by the first factor that says so, no by the last if all do; None where it is undecided."""
    positive = [factor for factor in factors if factor.sign > 0]
    if positive:
        return "yes", positive[0]
    return ("no", factors[-1]) if all(factor.sign < 0 for factor in factors) else None


def _decided(
    symmetry: Symmetry, shape: Sequence[int] | None, found: dict[str, list[Ended]], reference: Reference
) -> Verdict:
    learned, none, full = (found[state] for state in ("learned", f"none {symmetry.name}", f"full {symmetry.name}"))
    pooled, best = reference.variance, max(fmean(each.log_evidence for each in kind) for kind in (learned, none, full))
    against_none, against_full = difference(learned, none, pooled), difference(learned, full, pooled)
    said, factor, reason = answer(
        against_none,
        difference(full, none, pooled),
        finite=symmetry.unit == "probability",
        negligible=strength(symmetry, shape) == "negligible",
        informed=best > reference.constant,
    )
    values = (against_none.value, against_full.value, against_none.error, against_full.error)
    return Verdict(symmetry.name, said, factor.value, factor.error, symmetry.width, *values, reason)


@torch.no_grad()
def constant_log_evidence(run: Run, data: Data | Augmented) -> float:
    """The log-likelihood of all data under the best constant prediction, whose evidence it bounds."""
    batches = as_batches(data.data if isinstance(data, Augmented) else data).matching(run.network)
    first = next(iter(batches))
    shape = tuple(outputs_of_first(run.network, first).shape[1:])
    targets = torch.cat([batch.y for batch in batches])
    return len(targets) * constant_log_likelihood(run.likelihood, targets, shape)


def _pooled(found: dict[str, list[Ended]], names: Sequence[str]) -> float:
    """The mean variance of the differences between continuations, over all symmetries."""
    pairs = [("learned", f"{kind} {name}") for name in names for kind in ("none", "full")]
    differences = [
        [a.log_evidence - b.log_evidence for a, b in zip(found[first], found[second], strict=True)]
        for first, second in pairs
    ]
    return fmean(variance(values) for values in differences)


def _continued(run: Run, data: Data | Augmented, config: FitConfig, state: str) -> Ended:
    """Train a copy of the run on, with the widths of a state, and return its evidence."""
    model = deepcopy(run.model)
    augment = augmentation_of(model.network)
    assert augment is not None, "it was checked"
    kind, _, name = state.partition(" ")
    if kind != "learned":
        {"none": set_none, "full": set_full}[kind](augment, name)
    cast(nn.Module, augment).requires_grad_(False)
    set_training(model.network, run.record.model.get("evaluation_modules", ()))
    record = train(model, data, config, test=None, checkpoints=None, callbacks=())
    evaluated = [epoch.evaluated.log_evidence for epoch in record.history if epoch.evaluated is not None]
    if len(evaluated) < 2:
        raise NumericalError(
            f"The continuation with {state} ended without an evidence: {record.problem or 'too few epochs'}. Pass more "
            "epochs, or leave the symmetry out."
        )
    return Ended(evaluated[-1], evaluated[0])


def _checked_names(run: Run, names: Sequence[str] | None) -> list[str]:
    if run.augment is None:
        raise StructureError("Expected a run with an augmentation, got one without: it has no symmetry to decide on.")
    chosen = list(run.augment.names if names is None else names)
    for name in chosen:
        require_choice("symmetries", name, run.augment.names)
    if not chosen:
        raise StructureError("Expected one symmetry or more, got none.")
    return chosen


def _settings(run: Run, epochs: int | None) -> FitConfig:
    """The settings of a continuation: those of the run without burn-in and warm-up, evaluated twice.

    Each of two sets of samples has every element of a finite group, or its probabilities would count for nothing.
    """
    written = {name: run.record.config[name] for name in FitConfig().as_dict() if name in run.record.config}
    config = FitConfig().replace(**written)
    assert run.augment is not None, "it was checked"
    least, own = 2 * num_elements(run.augment), int(getattr(run.network, "num_samples", 1))
    finite = least > 2
    numbers = [max(n or own, least) if finite else n for n in (config.hyper.num_samples, config.evaluation.num_samples)]
    length = max(config.epochs // PART, LEAST_EPOCHS) if epochs is None else epochs
    if length < 2:
        raise StructureError(f"Expected epochs of at least 2, got {length}: the evidence is compared with half-way.")
    return config.replace(
        epochs=length,
        weights={"warmup_epochs": 0},
        hyper={"burn_in": 0, "num_samples": numbers[0]},
        evaluation={"num_evaluations": 2, "num_error_data": 0, "num_samples": numbers[1]},
    )


def _seed(config: FitConfig, repeat: int) -> int:
    return fold(fold(config.seed, 40487), repeat)  # apart from the seeds of the run itself
