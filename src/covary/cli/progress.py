"""The progress bar of a fit as a callback."""

from ..config import FitConfig
from ..records import Epoch
from ..report import FitProgress
from ..training import Callback, is_first


def progress_bars(title: str) -> list[Callback]:
    """The callbacks of one fit of a command: a progress bar in the first process."""
    return [ProgressBar(title)] if is_first() else []


class ProgressBar(Callback):
    """A progress bar on standard error, silent where that is not a terminal.

    Arguments:
        title: What is being fitted.
    """

    def __init__(self, title: str) -> None:
        self.title = title

    def on_fit_start(self, config: FitConfig) -> None:
        """Show the bar."""
        self.bar = FitProgress(config.epochs, self.title).__enter__()

    def on_step(self, epochs: float | int) -> None:
        """Move the bar."""
        self.bar.advance(epochs)

    def on_epoch(self, epoch: Epoch) -> None:
        """Show evidence and widths."""
        self.bar.show(epoch)

    def on_fit_end(self) -> None:
        """Remove the bar."""
        self.bar.__exit__(None, None, None)
