"""What a run learned about one symmetry: its width, and whether the data have it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Symmetry:
    """One learned amount of an augmentation.

    Arguments:
        name: The transform, such as "rotation".
        width: How far it reaches, at least 0.
        unit: The unit of the width, such as "radians".
        meaning: The same amount for a person, such as "±87° of rotation".
        state: "settled", "still moving", "not learned yet", "fixed" or "at its limit", as `records.settling` says.
        error: The standard error of the width, as `training.error_bars` says; None where it has none.
        interval: The ends of the 90 % interval of the width; None where it has none. One that begins at 0 is a bound.
        limits: The limits that it was learned within, in the unit; None without limits.
        no_error: Why the width has no error bar, in a few words; None where it has one.

    Example:
        >>> from covary.records import Symmetry
        >>> Symmetry("rotation", 1.52, "radians", "±87°").width
        1.52
    """

    name: str
    width: float
    unit: str
    meaning: str
    state: str = "settled"
    error: float | None = None
    interval: list[float] | None = None
    limits: list[float] | None = None
    no_error: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether the data have a symmetry, by log Bayes factors in nats.

    Arguments:
        name: The symmetry, such as "flip_x".
        answer: "yes", "no" or "undecided".
        log_bayes_factor: The one that the answer is from: of the learned width against none, or of the complete
            symmetry against none. Positive speaks for the symmetry.
        error: Its standard error.
        width: The learned width.
        log_bayes_factor_none: log Z with the learned width, minus log Z without the symmetry.
        log_bayes_factor_full: log Z with the learned width, minus log Z with the complete symmetry.
        error_none: The standard error of `log_bayes_factor_none`.
        error_full: The standard error of `log_bayes_factor_full`.
        reason: Why the answer is "undecided" where the factor is not the reason: "undertrained" if the losing side
            still gained more nats than it is behind, or "no better than a constant"; else None.

    Example:
        >>> from covary.records import Verdict
        >>> verdict = Verdict("flip_x", "yes", 412.0, 35.0, 0.5, 410.0, -2.0, 35.0, 3.0)
        >>> verdict.quote
        'yes, +412 ± 35 nats'
    """

    name: str
    answer: str
    log_bayes_factor: float
    error: float
    width: float
    log_bayes_factor_none: float
    log_bayes_factor_full: float
    error_none: float
    error_full: float
    reason: str | None = None

    @property
    def words(self) -> str:
        """The answer, with its reason where it has one, such as "undecided (undertrained)"."""
        return self.answer if self.reason is None else f"{self.answer} ({self.reason})"

    @property
    def quote(self) -> str:
        """The answer with its number, such as "yes, +412 ± 35 nats"."""
        digits = 0 if abs(self.log_bayes_factor) >= 10 else 1 if self.error >= 0.1 else 2
        return f"{self.words}, {self.log_bayes_factor:+.{digits}f} ± {self.error:.{digits}f} nats".replace("-", "−")
