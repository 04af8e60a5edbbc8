"""The command line: one short function per command."""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ._errors import CovaryError
from .benchmarks import WORKLOADS
from .data import listing
from .report import scaling_figure

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The process of the command `covary`: what a user can mend ends it with one line and exit code 2."""
    try:
        code = app(None if arguments is None else list(arguments), prog_name="covary", standalone_mode=False)
    except typer.Abort:
        _stop("stopped.", 130)
    except typer.TyperException as error:
        _stop(error.format_message() or "give a command; `covary --help` lists them.", error.exit_code)
    except CovaryError as error:
        _stop(str(error), 2)
    sys.exit(code if isinstance(code, int) else 0)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"covary {version('covary')}")
        raise typer.Exit
    return wanted


@app.callback()
def covary(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn the symmetries of your data while your network trains.

    Examples: `covary data`, `covary bench curvature --json`.
    """
    del show_version  # its callback has printed it and ended the process


@app.command()
def data(
    data_dir: Annotated[Path | None, typer.Option(help="Where to look first for data sets.")] = None,
    as_json: Json = False,
) -> None:
    """List the data sets, and where they were found.

    Examples: `covary data`, `covary data --data-dir ~/data`, `covary data --json`.
    """
    rows = [row._asdict() for row in listing(data_dir)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    Console().print(_table([_shown(row) for row in rows]))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(WORKLOADS)}.", metavar="NAME")],
    repeats: Annotated[int, typer.Option(min=1, help="How often each measurement is repeated.")] = 5,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Where to draw time and memory against size (scaling only).")
    ] = None,
) -> None:
    """Measure time and memory, as ratios to a training pass over the same images.

    Measure with nothing else running: `curvature` and `peers` take about five minutes, `evidence` and `scaling` ten.

    Examples: `covary bench evidence --repeats 3 --json`, `covary bench scaling --plot scaling.svg`.
    """
    if name not in WORKLOADS:
        raise CovaryError(f"no benchmark is called '{name}': expected one of {', '.join(WORKLOADS)}.")
    if plot is not None and name != "scaling":
        raise CovaryError(f"--plot draws the benchmark 'scaling'; '{name}' came. Leave the option out, or run scaling.")
    console = Console(stderr=True)
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=1.0)
        rows = WORKLOADS[name](
            repeats, lambda message, done: progress.update(task, description=message, completed=done)
        )
    if plot is not None:
        scaling_figure(rows).savefig(plot)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        Console().print(_table(rows))


def _stop(message: str, code: int) -> NoReturn:
    """The end of the process, after one line on standard error."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the list of data sets, with either its folder or its problem."""
    where = row["path"] or row["problem"]
    return {"name": row["name"], "train": row["num_train"], "test": row["num_test"], "where": where}


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as a table with a column per key, numbers to the right."""
    table = Table()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        table.add_column(key, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in keys))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
