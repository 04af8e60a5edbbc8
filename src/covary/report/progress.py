"""The progress of a fit on the terminal, while it runs."""

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..records import Epoch
from ..records.words import plain_name

# One for all bars: a fit's below a study's. Bars on two consoles would each wipe out the other's line.
CONSOLE = Console(stderr=True)


class FitProgress:
    """A progress bar on standard error: epoch, evidence per datum, the two largest widths, time gone and left.

    Nothing is printed where standard error is no terminal.

    Arguments:
        num_epochs: How many epochs the fit has.
        title: What is being fitted.
        console: Where to print instead of standard error.
    """

    def __init__(self, num_epochs: int, title: str, console: Console | None = None) -> None:
        console = CONSOLE if console is None else console
        self.num_epochs = num_epochs
        self.progress = Progress(
            TextColumn("{task.description}", markup=True),
            BarColumn(bar_width=20),
            TextColumn("epoch {task.fields[epoch]} of {task.total:.0f}"),
            TextColumn("{task.fields[news]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(escape(title), total=num_epochs, epoch=0, news="")

    def __enter__(self) -> "FitProgress":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def advance(self, epochs_done: float | int) -> None:
        """The bar at so many epochs since the start, a part of an epoch counting as such."""
        current = min(int(epochs_done) + 1, self.num_epochs)
        self.progress.update(self.task, completed=epochs_done, epoch=current)

    def show(self, epoch: Epoch) -> None:
        """The bar at the end of an epoch, with what the epoch came to."""
        self.progress.update(self.task, completed=epoch.epoch, epoch=epoch.epoch, news=_news(epoch))


def _news(epoch: Epoch) -> str:
    """The best known evidence per datum (the fit before there is one), then the two largest widths."""
    evidence = epoch.judged or epoch.evidence
    if evidence is None:
        parts = [f"log-likelihood {epoch.log_likelihood:.3f}"]
    else:
        parts = [f"log evidence {evidence.log_evidence / max(evidence.num_data, 1):.3f}"]
    largest = sorted(epoch.widths.items(), key=lambda item: -item[1])[:2]
    return "  ".join([*parts, *(f"{plain_name(name)} {width:.2f}" for name, width in largest)])
