"""The log of a fit that is under way: a JSON object per line, which `covary watch` follows."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._files import require_regular
from ..errors import DataError
from .files import from_plain
from .run import Epoch

LOG = "progress.jsonl"  # beside the checkpoints of the fit
LONGEST = 1 << 20  # bytes of a line
MOST_EPOCHS, MOST_SECONDS = 10**6, 1e12  # the most that settings allow, and no overflow in what is shown of a time


@dataclass(frozen=True)
class Event:
    """Something that happened in a fit.

    Arguments:
        event: "start", "phase" or "epoch".
        num_epochs: Of a start, all epochs of the fit.
        phase: Of a phase, "training", "evaluating" or "testing".
        epoch: Of an epoch, its record.
    """

    event: str
    num_epochs: int | None = None
    phase: str | None = None
    epoch: Epoch | None = None

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
