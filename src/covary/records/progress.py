"""How far a fit has come: in one line that fits the terminal, and in a log, a JSON object per line."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .._files import require_regular
from ..errors import DataError
from .files import from_plain
from .run import Epoch, Evidence
from .words import plain_name

Phase = Literal["training", "evaluating", "testing"]
SHORTEST_BAR, LONGEST_BAR = 5, 20  # characters, without the brackets


@dataclass
class Progress:
    """The state of a fit that a line of progress shows."""

    title: str  # the name of the fit; empty for none
    num_epochs: int  # all epochs of the fit
    phase: Phase = "training"  # what it does now
    epoch: int = 1  # the epoch under way, or the one that has just ended, from 1
    epochs: float | int = 0  # the epochs that are done; a part of an epoch counts as such
    last: Epoch | None = None  # the record of the last complete epoch
    evidence: Evidence | None = None  # the last evidence; not every epoch has one
    elapsed: float = 0.0  # seconds since the start
    left: float | None = None  # the estimate of the seconds to the end of training, or None
    evaluated: bool = False  # whether the evidence was evaluated, not estimated by hyper steps on the way

    def note(self, epoch: Epoch) -> None:
        """Note that an epoch is complete."""
        self.epoch, self.epochs, self.last = epoch.epoch, epoch.epoch, epoch
        if found := epoch.evaluated or epoch.evidence:
            self.evidence, self.evaluated = found, epoch.evaluated is not None

    def bar(self, width: int) -> str:
        """A line of at most `width` characters: phase, bar, epoch of all, evidence per datum, time left.

        A wide line also has the two largest widths and the time elapsed. A narrow one has shorter words, then no bar.
        """
        name = f"{self.title}: {self.phase}" if self.title else self.phase
        number, short_number = f"epoch {self.epoch} of {self.num_epochs}", f"epoch {self.epoch}/{self.num_epochs}"
        left = self._left()
        choices = [
            (name, [number, *self._news(), *self._widths(), f"{clock(self.elapsed)} elapsed", *left]),
            (name, [number, *self._news(), *left]),
            (name, [short_number, *self._news(short=True), *left]),
            (self.phase, [number, *self._news(), *left]),
            (self.phase, [short_number, *self._news(short=True), *left]),
        ]
        for first, parts in choices:
            rest = ", ".join(parts)
            space = width - len(first) - len(rest) - 4  # without two spaces and two brackets
            if space >= SHORTEST_BAR:
                return f"{first} [{self._filled(min(space, LONGEST_BAR))}] {rest}"
        return ", ".join([self.phase, *choices[-1][1]])[: max(width, 0)]

    def log_line(self) -> str:
        """A line of a log: phase, epoch of all, evidence per datum, the two largest widths, time elapsed and left."""
        name = f"{self.title}: {self.phase}" if self.title else self.phase
        times = [f"{clock(self.elapsed)} elapsed", *self._left()]
        number = f"epoch {self.epoch} of {self.num_epochs}"
        return ", ".join([name, number, *self._news(), *self._widths(), *times])

    def _filled(self, size: int) -> str:
        full = round(size * min(self.epochs / max(self.num_epochs, 1), 1.0))
        return "#" * full + "-" * (size - full)

    def _news(self, *, short: bool = False) -> list[str]:
        """The evidence per datum, and whether hyper steps estimated it; the log-likelihood before there is one."""
        if self.last is None:
            return []
        if self.evidence is None:
            return [f"{'loglik' if short else 'log-likelihood'} {self.last.log_likelihood:.3f}"]
        value = self.evidence.log_evidence / max(self.evidence.num_data, 1)
        if short:
            return [f"evidence {'' if self.evaluated else '~'}{value:.3f}"]
        return [f"{'evaluated' if self.evaluated else 'estimated'} log evidence {value:.3f}"]

    def _widths(self) -> list[str]:
        """The two largest widths."""
        widths = {} if self.last is None else self.last.widths
        largest = sorted(widths.items(), key=lambda item: -item[1])[:2]
        return [f"{plain_name(name)} {width:.2f}" for name, width in largest]

    def _left(self) -> list[str]:
        return [] if not self.left else [f"{clock(self.left)} left"]


def clock(seconds: float | int) -> str:
    """A time as minutes and seconds, from an hour on with the hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, over = divmod(minutes, 60)
    return f"{hours}:{over:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


LOG = "progress.jsonl"  # beside the checkpoints of the fit
LONGEST = 1 << 20  # bytes of a line
MOST_EPOCHS, MOST_SECONDS = 10**6, 1e12  # the most that settings allow, and no overflow in what is shown of a time


@dataclass(frozen=True)
class Event:
    """Something that happened in a fit."""

    event: str  # "start", "phase" or "epoch"
    num_epochs: int | None = None  # of a start, all epochs of the fit
    phase: str | None = None  # of a phase, "training", "evaluating" or "testing"
    epoch: Epoch | None = None  # of an epoch, its record

    def plain(self) -> dict[str, Any]:
        """The fields that are set, as plain data."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def line_of(event: Event) -> str:
    """An event as a line of the log."""
    return json.dumps(event.plain(), allow_nan=False) + "\n"


class LogReader:
    """The events of a log that were not read before.

    Arguments:
        path: The file. It may be absent; when it is replaced, by a fit that starts again, it is read from its start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: tuple[int, int] | None = None
        self.place = 0

    def read(self) -> list[Event]:
        """The new events, of whole lines; empty where there are none, or no file."""
        try:
            require_regular(self.path)
            with self.path.open("rb") as file:
                state = os.fstat(file.fileno())
                if self.file != (state.st_dev, state.st_ino) or state.st_size < self.place:
                    self.file, self.place = (state.st_dev, state.st_ino), 0
                file.seek(self.place)
                lines = file.read().splitlines(keepends=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        whole = [line for line in lines if line.endswith(b"\n")]
        self.place += sum(map(len, whole))
        return [self._event(line) for line in whole]

    def _event(self, line: bytes) -> Event:
        try:
            if len(line) > LONGEST:
                raise ValueError("a line is too long")
            event: Event = from_plain(json.loads(line), Event, str(self.path))
            _check_range(event)
        except (ValueError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"'{self.path}' is not the log of a fit ({error}). Remove it.") from error
        return event


def _check_range(event: Event) -> None:
    """Raise `ValueError` for a number of epochs or a time that no fit has."""
    numbers = [] if event.num_epochs is None else [event.num_epochs]
    numbers += [] if event.epoch is None else [event.epoch.epoch]
    if any(not 0 <= number <= MOST_EPOCHS for number in numbers):
        raise ValueError(f"expected epochs from 0 to {MOST_EPOCHS:,}")
    if event.epoch is not None and not 0 <= event.epoch.seconds <= MOST_SECONDS:
        raise ValueError(f"expected seconds from 0 to {MOST_SECONDS:g}")
