"""What commands print: tables for people, JSON for machines, progress on standard error."""

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from .._files import require_named_writable, write_named
from ..errors import CovaryError
from ..records.progress import clock
from .terminal import PlainConsole, echo, echo_line

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
KINDS = (".svg", ".png", ".pdf")
NUM_LINES = 10  # of progress, about, where there is no terminal
# One for all bars: with two consoles, the bar of a fit and that of its study would overwrite each other.
CONSOLE = PlainConsole(stderr=True)


def echo_json(value: Any) -> None:
    """Print a value as JSON."""
    echo(json.dumps(value, indent=2, allow_nan=False))


def check_drawable(path: Path) -> None:
    """Raise `CovaryError` for an ending that no figure can have, `OSError` for a file that cannot be written."""
    if path.suffix.lower() not in KINDS:
        raise CovaryError(f"Expected a figure's file name to end in {', '.join(KINDS)}, got '{path}'.")
    require_named_writable(path)


def draw(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib to a file that the user named, whole or not at all, in the format of its ending.

    The same numbers give the same bytes.
    """
    write_named(path, drawn(figure, path.suffix))


def drawn(figure: Any, ending: str) -> bytes:
    """The bytes of a file with a figure, in the format of an ending such as ".svg"."""
    from ..report.svg import style

    kind, content = ending.lower().removeprefix("."), io.BytesIO()
    with style():  # which sets how text and identifiers are written, too
        figure.savefig(content, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()


@contextmanager
def progress(title: str, *, lines: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A progress bar with the time left, on a terminal; elsewhere nothing, or about ten lines.

    Arguments:
        lines: Whether lines are printed where there is no terminal, for what prints no progress of its own fits.
    """
    if lines and not CONSOLE.is_terminal:
        yield _Lines(title)
        return
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    with ProgressBar(*columns, console=CONSOLE, transient=True, disable=not CONSOLE.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda message, done: bar.update(task, description=message, completed=done)


class _Lines:
    """Progress as lines on standard error: one in each tenth of the work."""

    def __init__(self, title: str) -> None:
        self.title, self.started, self.printed = title, time.monotonic(), -1

    def __call__(self, message: str, done: float) -> None:
        if int(done * NUM_LINES) == self.printed:
            return
        self.printed, elapsed = int(done * NUM_LINES), time.monotonic() - self.started
        left = f", {clock(elapsed / done - elapsed)} left" if done > 0 else ""
        echo_line(f"{self.title}: {message}, {100 * done:.0f} % done, {clock(elapsed)} elapsed{left}")


def print_rows(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> None:
    """Print rows as a table with a column per key, numbers to the right.

    Where words would be broken to fit a line, the columns are divided among several tables, each of which begins with
    the texts that distinguish the rows.

    Arguments:
        rows: The rows; where one has no value for a key there is a dash.
        width: Characters of a line; the terminal's by default.
    """
    console = PlainConsole(width=width)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    numeric = {key for key in keys if any(isinstance(row.get(key), int | float) for row in rows)}
    columns = {key: [_cell(row.get(key)) for row in rows] for key in keys}
    names = list(takewhile(lambda key: key not in numeric, keys)) if numeric else keys[:1]
    groups = [names]
    for key in keys[len(names) :]:
        if groups[-1] == names or _widths(columns, [*groups[-1], key], console.width) is not None:
            groups[-1] = [*groups[-1], key]
        else:
            groups.append([*names, key])
    for keys_shown in groups:
        console.print(_table(columns, keys_shown, numeric, console.width))


def _table(columns: Mapping[str, Sequence[str]], keys: Sequence[str], numeric: Set[str], width: int) -> Table:
    made = Table()
    widths = _widths(columns, keys, width) or {}
    for key in keys:
        made.add_column(key, justify="right" if key in numeric else "left", overflow="fold", width=widths.get(key))
    for cells in zip(*(columns[key] for key in keys), strict=True):
        made.add_row(*map(Text, cells))
    return made


def _widths(columns: Mapping[str, Sequence[str]], keys: Sequence[str], width: int) -> dict[str, int] | None:
    """The width of each column, at least its longest word and at most its longest text; None if words must break."""
    texts = {key: (key, *columns[key]) for key in keys}
    least = {key: max(cell_len(word) for text in texts[key] for word in text.split()) for key in keys}
    more = {key: max(map(cell_len, texts[key])) - least[key] for key in keys}
    spare = width - 1 - sum(width + 3 for width in least.values())  # without two spaces and a border per column
    if spare < 0:
        return None
    widths = dict(least)
    for key in sorted(keys, key=more.__getitem__):  # the narrowest first
        widths[key] += min(more[key], spare)
        spare -= min(more[key], spare)
    return widths


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
