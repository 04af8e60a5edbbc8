"""`covary report` and `covary compare`: what do saved runs say?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..errors import CovaryError
from ..records import RunRecord, read_run
from ..report import comparability, comparison, comparison_figure, comparison_table, write_page
from .app import app
from .output import Json, draw, echo_json


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or its run.json.", metavar="RUN")],
    out: Annotated[Path | None, typer.Option(help="Where to write the page; by default RUN/report.html.")] = None,
) -> None:
    """Draw the report of a run anew from its records, without training.

    Examples: `covary report runs/latest`, `covary report runs/latest --out page.html`.
    """
    place = out or (run if run.is_dir() else run.parent) / "report.html"
    write_page(read_run(run), place)
    typer.echo(f"The report lies in {place}.")


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more folders of runs.", metavar="RUN RUN...")],
    plot: Annotated[Path | None, typer.Option(help="Where to draw the comparison, such as compare.svg.")] = None,
    as_json: Json = False,
) -> None:
    """Rank runs by their evidence, with its terms and the log Bayes factors against the best.

    Evidences of different data, or in different parametrizations, say nothing about each other: such runs are compared
    with a warning.

    Examples: `covary compare runs/affine runs/flips`, `covary compare runs/* --json`.
    """
    if len(runs) < 2:
        raise CovaryError(f"compare needs two or more runs; {len(runs)} came.")
    found = [_named(read_run(path), path) for path in runs]
    if plot is not None:
        draw(comparison_figure(found), plot)
    if as_json:
        echo_json({"runs": comparison(found), "warnings": comparability(found)})
    else:
        Console().print(comparison_table(found))


def _named(run: RunRecord, path: Path) -> RunRecord:
    """The run under the name of its folder: titles of two runs on the same data are equal."""
    return replace(run, title=f"{path}: {run.title}")
