"""What a fit reports while it runs: callbacks, and the progress that is printed without one."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._text import clipped, plural
from ..config import FitConfig
from ..errors import StructureError
from ..records import Epoch
from ..records.progress import Phase, Progress

NUM_LINES = 10  # of progress, about, where it is a log
TIMED_EPOCHS = 0.9  # after the burn-in, before there is an estimate of the time left: weight steps alone are fast
QUIET_SECONDS = 5.0  # after which a log also has a line before an evaluation


class Callback:
    """Base of what `fit` calls while it runs; each method does nothing unless it is overridden.

    Example:
        >>> class Widths(covary.Callback):
        ...     def on_epoch(self, epoch):
        ...         print(epoch.epoch, epoch.widths)
    """

    def on_fit_start(self, config: FitConfig) -> None:
        """Called before the first step, with the settings."""

    def on_resume(self, epochs: int) -> None:
        """Called after `on_fit_start` if the fit continues from a checkpoint, with the epochs that it has completed."""

    def on_phase(self, phase: Phase) -> None:
        """Called when the fit goes on to something else: "training", "evaluating" (the evidence) or "testing"."""

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


def as_callbacks(callbacks: object) -> list[Callback]:
    """Callbacks, with plain functions of the epoch's record wrapped."""
    if not isinstance(callbacks, Sequence):
        raise StructureError(f"Expected a list of callbacks, got {clipped(callbacks)}. Pass [callback].")
    return [callback if isinstance(callback, Callback) else _Function(callback) for callback in callbacks]


class ProgressTracker(Callback):
    """The state of a fit as a line of progress shows it, with a clock.

    Arguments:
        title: The name of the fit; empty for none.
    """

    def __init__(self, title: str = "") -> None:
        self.title = title

    def on_fit_start(self, config: FitConfig) -> None:
        """Start the clock."""
        self.progress = Progress(self.title, config.epochs)
        self.started = self.moved = time.monotonic()
        burn_in = config.hyper.burn_in or 0
        self.burn_in = burn_in if burn_in < config.epochs else 0
        self.paced: tuple[float, float] | None = None  # epochs and time from which the pace is measured

    def on_resume(self, epochs: int) -> None:
        """Say where the fit continues."""
        title = f"{self.title}: " if self.title else ""
        self.tell(f"{title}continuing after {epochs} of {plural(self.progress.num_epochs, 'epoch')}")

    def on_phase(self, phase: Phase) -> None:
        """Note the phase."""
        self.progress.phase = phase
        self.show()

    def on_step(self, epochs: float | int) -> None:
        """Note how far the epoch has come."""
        self.progress.epochs, self.progress.epoch = epochs, min(int(epochs) + 1, self.progress.num_epochs)
        self.moved = time.monotonic()
        if self.paced is None or epochs <= self.burn_in:  # a resumed fit starts later
            self.paced = float(epochs), self.moved
        self.show()

    def on_epoch(self, epoch: Epoch) -> None:
        """Note the epoch's record."""
        self.progress.note(epoch)
        self.progress.phase, self.moved = "training", time.monotonic()
        self.show()

    def show(self) -> None:
        """Show the state, if it is shown whenever it changes."""

    def tell(self, line: str) -> None:
        """Print a line that stays, if any are printed."""

    def now(self) -> Progress:
        """The state at this moment, with the time elapsed, and left as soon as an epoch with hyper steps was timed."""
        found, now = self.progress, time.monotonic()
        found.elapsed = now - self.started
        first, since = (found.epochs, now) if self.paced is None else self.paced
        done = found.epochs - first
        if done >= TIMED_EPOCHS:  # at the pace up to the last step, less the time since
            rest = (self.moved - since) * (found.num_epochs - found.epochs) / done
            found.left = max(rest - (now - self.moved), 0.0)
        return found


class ProgressPrinter(ProgressTracker):
    """Progress as plain text: on a terminal one line that is rewritten, elsewhere about ten lines in all.

    Arguments:
        file: An open text file to print to; standard error by default.
        title: The name of the fit; empty for none.
    """

    def __init__(self, file: Any = None, title: str = "") -> None:
        super().__init__(title)
        self.file = sys.stderr if file is None else file
        self.live = self.file.isatty()
        self.length, self.printed = 0, time.monotonic()

    def on_phase(self, phase: Phase) -> None:
        """Print a line in a log: before the test, and before an evaluation if the last line is some time ago."""
        super().on_phase(phase)
        late = phase == "evaluating" and time.monotonic() - self.printed > QUIET_SECONDS
        if not self.live and (late or phase == "testing"):
            self._print_line()

    def on_epoch(self, epoch: Epoch) -> None:
        """Print a line in a log, if it is the first epoch, the last, or one in a tenth of them."""
        super().on_epoch(epoch)
        total = self.progress.num_epochs
        if not self.live and (epoch.epoch % max(total // NUM_LINES, 1) == 0 or epoch.epoch in (1, total)):
            self._print_line()

    def on_fit_end(self) -> None:
        """End the line on a terminal."""
        if self.live and self.length:
            print(file=self.file, flush=True)

    def show(self) -> None:
        """Rewrite the line on a terminal."""
        if self.live:
            line = self.now().bar(shutil.get_terminal_size().columns - 1)  # in the last column some would wrap
            print(f"\r{line.ljust(self.length)}", end="", file=self.file, flush=True)
            self.length = len(line)

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        print(line, file=self.file, flush=True)
        self.printed = time.monotonic()

    def _print_line(self) -> None:
        self.tell(self.now().log_line())


@contextmanager
def reported(callbacks: Sequence[Callback], config: FitConfig, resumed: int | None) -> Iterator[None]:
    """Call the callbacks at the start of a fit, and at its end whatever happens.

    Arguments:
        callbacks: The callbacks.
        config: The settings.
        resumed: The epochs that a resumed fit has completed, or None for another fit.
    """
    for callback in callbacks:
        callback.on_fit_start(config)
        if resumed is not None:
            callback.on_resume(resumed)
    try:
        yield
    finally:
        for callback in callbacks:
            callback.on_fit_end()


def enter_phase(callbacks: Sequence[Callback], phase: Phase) -> None:
    """Call the callbacks with what the fit does from now on."""
    for callback in callbacks:
        callback.on_phase(phase)
