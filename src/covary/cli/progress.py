"""The progress of a fit as callbacks: a bar on a terminal, lines elsewhere."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..config import FitConfig
from ..records import Epoch
from ..training import Callback, is_first
from ..training.callbacks import ProgressPrinter, epoch_news
from . import output


def progress_of(title: str) -> list[Callback]:
    """The callbacks of a fit that a command runs, in the first of its processes."""
    if not is_first():
        return []
    return [ProgressBar(title, output.CONSOLE) if output.CONSOLE.is_terminal else ProgressLines(title)]


class ProgressLines(ProgressPrinter):
    """About ten lines on standard error, after one with the title of the fit."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def on_fit_start(self, config: FitConfig) -> None:
        """Print the title."""
        super().on_fit_start(config)
        print(f"{self.title}: {config.epochs} epochs", file=self.file, flush=True)


class ProgressBar(Callback):
    """A bar on a terminal: epoch, evidence per datum, the two largest widths, elapsed and remaining time.

    Arguments:
        title: The title of the fit.
        console: The console of the terminal.
    """

    def __init__(self, title: str, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=True),
            BarColumn(bar_width=20),
            TextColumn("epoch {task.fields[epoch]} of {task.total:.0f}"),
            TextColumn("{task.fields[news]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.progress.add_task(escape(title), total=0, epoch=0, news="")

    def on_fit_start(self, config: FitConfig) -> None:
        """Show the bar."""
        self.num_epochs = config.epochs
        self.progress.update(self.task, total=config.epochs)
        self.progress.start()

    def on_step(self, epochs: float | int) -> None:
        """Move the bar."""
        self.progress.update(self.task, completed=epochs, epoch=min(int(epochs) + 1, self.num_epochs))

    def on_epoch(self, epoch: Epoch) -> None:
        """Show evidence and widths."""
        self.progress.update(self.task, completed=epoch.epoch, epoch=epoch.epoch, news=epoch_news(epoch))

    def on_fit_end(self) -> None:
        """Remove the bar."""
        self.progress.stop()
