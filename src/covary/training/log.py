"""The log that a fit writes beside its checkpoints while it runs."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from .._files import write_text
from ..config import FitConfig
from ..records import Epoch
from ..records.progress import LOG, Event, Phase, line_of
from .callbacks import Callback


class ProgressLog(Callback):
    """Start, phases and epochs of a fit as lines of a file.

    A log that cannot be written, such as on a full disk, is a warning; the fit goes on without it.

    Arguments:
        folder: The folder of the checkpoints.
        history: The epochs before this session, of a fit that is resumed.
    """

    def __init__(self, folder: Path, history: Sequence[Epoch]) -> None:
        self.path, self.history = folder / LOG, list(history)
        self.phase: Phase | None = None
        self.writable = True

    def on_fit_start(self, config: FitConfig) -> None:
        """Replace the log of an earlier session: its last epochs may be trained again."""
        epochs = [Event("epoch", epoch=epoch) for epoch in self.history]
        self._write([Event("start", num_epochs=config.epochs), *epochs], anew=True)

    def on_phase(self, phase: Phase) -> None:
        """Append the phase, if it is another one."""
        if phase != self.phase:
            self._write([Event("phase", phase=phase)])
        self.phase = phase

    def on_epoch(self, epoch: Epoch) -> None:
        """Append the epoch."""
        self._write([Event("epoch", epoch=epoch)])

    def _write(self, events: Sequence[Event], *, anew: bool = False) -> None:
        if not self.writable:
            return
        try:
            text = "".join(map(line_of, events))
            if anew:
                write_text(self.path, text)
            else:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(text)
        except (OSError, ValueError) as error:  # ValueError: a number that is not finite
            self.writable = False
            reason = error.strerror if isinstance(error, OSError) else str(error)
            warnings.warn(
                f"'{self.path}' cannot be written: {reason}. The fit goes on; `covary watch` cannot follow it.",
                stacklevel=3,
            )
