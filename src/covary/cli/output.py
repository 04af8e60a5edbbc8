"""What commands print: tables for people, JSON for machines, progress on standard error."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from .._errors import CovaryError
from .._types import Progress
from ..report.progress import CONSOLE
from ..report.svg import style

__all__ = ["Json", "check_drawable", "draw", "echo_json", "progress", "table"]

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


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as a table with a column per key, numbers to the right."""
    made = Table()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        made.add_column(key, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(_cell(row.get(key))) for key in keys))
    return made


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
