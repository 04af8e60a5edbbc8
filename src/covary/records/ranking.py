"""Which of the networks that a run trained predicts the test data best, in a sentence, whoever it is."""

import math

from . import Metrics, RunRecord

CLEAR = 2.0  # standard errors of a difference of two accuracies, from which it is more than chance


def best_tested(run: RunRecord) -> str:
    """A sentence about the network with the highest test accuracy; empty without baselines that were tested.

    Two accuracies differ clearly if they are at least two standard errors of their difference apart, as if the networks
    were tested on different data of this number.

    Example:
        >>> from covary.records import Baseline, Metrics, RunRecord
        >>> test, other = (Metrics(right, 0.1, 0.0, 1000, 8) for right in (0.95, 0.99))
        >>> best_tested(RunRecord("run", test=test, baselines=[Baseline("plain", [], None, other, 3.0)]))
        'On the test data plain is better than what was learned: 99.0 % right, against 95.0 %.'
    """
    if run.test is None or run.test.accuracy is None:
        return ""
    others = {other.name: other.test for other in run.baselines if other.test and other.test.accuracy is not None}
    if not others:
        return ""
    name = max(others, key=lambda other: _accuracy(others[other]))
    ours, theirs = _accuracy(run.test), _accuracy(others[name])
    if abs(ours - theirs) < CLEAR * math.hypot(_error(run.test), _error(others[name])):
        return (
            f"On the test data no clear winner: {100 * ours:.1f} % right with what was learned, {100 * theirs:.1f} % "
            f"with {name}, the best baseline; {run.test.num_data:,} test data are too few to separate them."
        )
    if ours > theirs:
        return (
            f"On the test data what was learned is best: {100 * ours:.1f} % right, against {100 * theirs:.1f} % with "
            f"{name}, the best baseline."
        )
    return (
        f"On the test data {name} is better than what was learned: {100 * theirs:.1f} % right, against "
        f"{100 * ours:.1f} %."
    )


def _accuracy(test: Metrics) -> float:
    return 0.0 if test.accuracy is None else test.accuracy


def _error(test: Metrics) -> float:
    """The standard error of an accuracy; of one that is 0 or 1, as if one answer more were different."""
    share = min(max(_accuracy(test), 1 / (test.num_data + 2)), 1 - 1 / (test.num_data + 2))
    return math.sqrt(share * (1 - share) / max(test.num_data, 1))
