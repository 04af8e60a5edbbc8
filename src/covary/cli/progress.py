"""The progress of a fit as callbacks: a bar on a terminal, lines elsewhere."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..config import FitConfig
from ..distributed import is_first
from ..training import Callback
from ..training.callbacks import ProgressPrinter, ProgressTracker
from . import output


def progress_of(title: str) -> list[Callback]:
    """The callbacks of a fit that a command runs, in the first of its processes."""
    if not is_first():
        return []
    return [ProgressBar(title, output.CONSOLE) if output.CONSOLE.is_terminal else ProgressPrinter(title=title)]


class ProgressBar(ProgressTracker):
    """A line on a terminal: phase, bar, epoch of all, evidence per datum, time left."""

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(title)
        self.console = console

    def on_fit_start(self, config: FitConfig) -> None:
        """Show the bar."""
        super().on_fit_start(config)
        self.live = Live(console=self.console, transient=True, refresh_per_second=4, get_renderable=self._line)
        self.live.start()

    def on_fit_end(self) -> None:
        """Remove the bar."""
        self.live.stop()

    def tell(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(Text(line))

    def _line(self) -> Text:
        return Text(self.now().bar(self.console.width - 1), no_wrap=True)
