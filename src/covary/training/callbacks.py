"""What a fit reports while it runs: callbacks, and the progress that is printed without one."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..config import FitConfig
from ..records import Epoch
from ..records.words import plain_name

NUM_LINES = 10  # of progress, about, where it is a log


class Callback:
    """Base of what `fit` calls while it runs; each method does nothing unless it is overridden.

    Example:
        >>> class Widths(covary.Callback):
        ...     def on_epoch(self, epoch):
        ...         print(epoch.epoch, epoch.widths)
    """

    def on_fit_start(self, config: FitConfig) -> None:
        """Called before the first step, with the settings."""

    def on_step(self, epochs: float | int) -> None:
        """Called after each weight step, with the epochs done so far; a fraction of an epoch counts as such."""

    def on_epoch(self, epoch: Epoch) -> None:
        """Called after each epoch, with its record."""

    def on_fit_end(self) -> None:
        """Called when the fit has ended, also by an error."""


class _Function(Callback):
    """A plain function of the record of an epoch as a callback."""

    def __init__(self, function: Callable[[Epoch], None]) -> None:
        self.function = function

    def on_epoch(self, epoch: Epoch) -> None:
        self.function(epoch)


def as_callbacks(callbacks: Sequence[Callback | Callable[[Epoch], None]]) -> list[Callback]:
    """Callbacks, with plain functions of the epoch's record wrapped."""
    return [callback if isinstance(callback, Callback) else _Function(callback) for callback in callbacks]


class ProgressPrinter(Callback):
    """Progress as plain text: on a terminal one line that is rewritten, elsewhere about ten lines in all.

    Arguments:
        file: An open text file to print to; standard error by default.
    """

    def __init__(self, file: Any = None) -> None:
        self.file = sys.stderr if file is None else file
        self.live = self.file.isatty()
        self.length = 0

    def on_fit_start(self, config: FitConfig) -> None:
        """Start the clock."""
        self.num_epochs, self.every = config.epochs, max(config.epochs // NUM_LINES, 1)
        self.started, self.first, self.news = time.monotonic(), -1.0, ""

    def on_step(self, epochs: float | int) -> None:
        """Rewrite the line on a terminal."""
        if self.first < 0:  # a resumed fit starts later
            self.first = float(epochs)
        elif self.live:
            self._rewrite(f"epoch {min(int(epochs) + 1, self.num_epochs)} of {self.num_epochs}{self._rest(epochs)}")

    def on_epoch(self, epoch: Epoch) -> None:
        """Print a line, on a terminal over the one before it."""
        self.news = f", {epoch_news(epoch)}"
        line = f"epoch {epoch.epoch} of {self.num_epochs}{self._rest(epoch.epoch)}"
        if self.live:
            self._rewrite(line)
        elif epoch.epoch % self.every == 0 or epoch.epoch in (1, self.num_epochs):
            print(line, file=self.file, flush=True)

    def on_fit_end(self) -> None:
        """End the line on a terminal."""
        if self.live and self.length:
            print(file=self.file, flush=True)

    def _rest(self, epochs: float | int) -> str:
        done, elapsed = epochs - max(self.first, 0.0), time.monotonic() - self.started
        left = elapsed * (self.num_epochs - epochs) / done if done > 0 else 0.0
        return f"{self.news}, {_clock(elapsed)} elapsed" + (f", {_clock(left)} left" if left > 0 else "")

    def _rewrite(self, line: str) -> None:
        print(f"\r{line.ljust(self.length)}", end="", file=self.file, flush=True)
        self.length = len(line)


def epoch_news(epoch: Epoch) -> str:
    """The evidence per datum (the log-likelihood before there is one) and the two largest widths."""
    evidence = epoch.evaluated or epoch.evidence
    if evidence is None:
        news = [f"log-likelihood {epoch.log_likelihood:.3f}"]
    else:
        news = [f"log evidence {evidence.log_evidence / max(evidence.num_data, 1):.3f}"]
    largest = sorted(epoch.widths.items(), key=lambda item: -item[1])[:2]
    return ", ".join([*news, *(f"{plain_name(name)} {width:.2f}" for name, width in largest)])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
