"""What commands print: tables for people, JSON for machines, progress on standard error."""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from .._types import Progress
from ..errors import CovaryError
from ..report.progress import CONSOLE
from ..report.svg import style

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
KINDS = (".svg", ".png", ".pdf")


def echo_json(value: Any) -> None:
    """A value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def check_drawable(path: Path) -> None:
    """The folder of the file, made; or an error for a place or an ending that no picture can have."""
    if path.suffix.lower() not in KINDS:
        raise CovaryError(f"a picture's name ends in one of {', '.join(KINDS)}; '{path}' came.")
    path.parent.mkdir(parents=True, exist_ok=True)


def draw(figure: Figure, path: Path) -> None:
    """A figure as a file of the kind that its ending names; the same numbers give the same bytes."""
    check_drawable(path)
    with style():  # it says, too, how text and identifiers are written
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A bar with time left, on a terminal; silence elsewhere."""
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    with ProgressBar(*columns, console=CONSOLE, transient=True, disable=not CONSOLE.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda message, done: bar.update(task, description=message, completed=done)


def print_rows(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> None:
    """Rows on standard output, as a table with a column per key, numbers to the right.

    Where words would be broken to fit a line, the columns are divided among several tables, each of which begins with
    the texts that tell the rows apart.

    Arguments:
        rows: The rows; where one has no value for a key there is a dash.
        width: Characters of a line; the terminal's by default.
    """
    console = Console(width=width)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    numeric = {key for key in keys if any(isinstance(row.get(key), int | float) for row in rows)}
    columns = {key: [_cell(row.get(key)) for row in rows] for key in keys}
    names = list(takewhile(lambda key: key not in numeric, keys)) if numeric else keys[:1]
    parts = [names]
    for key in keys[len(names) :]:
        if parts[-1] == names or _widths(columns, [*parts[-1], key], console.width) is not None:
            parts[-1] = [*parts[-1], key]
        else:
            parts.append([*names, key])
    for part in parts:
        console.print(_table(columns, part, numeric, console.width))


def _table(columns: Mapping[str, Sequence[str]], keys: Sequence[str], numeric: Set[str], room: int) -> Table:
    made = Table()
    widths = _widths(columns, keys, room) or {}
    for key in keys:
        made.add_column(key, justify="right" if key in numeric else "left", overflow="fold", width=widths.get(key))
    for cells in zip(*(columns[key] for key in keys), strict=True):
        made.add_row(*map(Text, cells))
    return made


def _widths(columns: Mapping[str, Sequence[str]], keys: Sequence[str], room: int) -> dict[str, int] | None:
    """The width of each column, at least its longest word and at most its longest text; None if words must break."""
    texts = {key: (key, *columns[key]) for key in keys}
    least = {key: max(cell_len(word) for text in texts[key] for word in text.split()) for key in keys}
    more = {key: max(map(cell_len, texts[key])) - least[key] for key in keys}
    spare = room - 1 - sum(width + 3 for width in least.values())  # of two spaces and a border to each column
    if spare < 0:
        return None
    widths = dict(least)
    for key in sorted(keys, key=more.__getitem__):  # whoever needs little gets all of it
        widths[key] += min(more[key], spare)
        spare -= min(more[key], spare)
    return widths


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
