"""`covary geometry`: how sharp is a saved network, and in which coordinates?"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group

from ..experiments import saved_geometry
from ..experiments.geometry_figure import geometry_figure, geometry_table
from ..records import write_study
from ..reproduce.figures import study_table
from .app import app
from .output import Json, draw, echo_json, progress


@app.command()
def geometry(
    run: Annotated[Path, typer.Argument(help="The folder of a run of discover or layers.", metavar="RUN")],
    images: Annotated[
        int | None, typer.Option(help="Training images to read; by default 500 with their copies.", min=1)
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Where to look first for data sets.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random probes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The folder for geometry.json and geometry.svg; by default RUN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sharpness and evidence of a saved network, naive and metric-aware, in Cartesian and in polar coordinates.

    Naive numbers depend on how the weights are written down; metric-aware ones do not. The metric is the prior's
    precisions. Every number comes with its 95 % error. Writes `geometry.json` and `geometry.svg`.

    Examples: `covary geometry runs/latest`, `covary geometry runs/latest --images 2000 --json`.
    """
    folder = out or (run if run.is_dir() else run.parent)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # now, not after the work: a place that cannot be would lose it
    with progress("geometry") as report:
        found = saved_geometry(run, images, data_dir, seed, report)
    write_study(found, folder / "geometry.json")
    draw(geometry_figure(found), folder / "geometry.svg")
    if as_json:
        echo_json(asdict(found))
        return
    Console().print(Group(geometry_table(found), study_table(replace(found, title="What the coordinates change"))))
    typer.echo(f"Numbers and figure lie in {folder} ({found.seconds:.0f} s).")
