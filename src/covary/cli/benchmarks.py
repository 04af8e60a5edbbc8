"""`covary bench`: how long does it take, in how much memory?"""

from pathlib import Path
from typing import Annotated

import typer

from ..benchmarks import WORKLOADS
from ..benchmarks.scaling_figure import scaling_figure
from ..errors import CovaryError
from .app import app
from .output import Json, check_drawable, draw, echo_json, print_rows, progress


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

    Measure with nothing else running: `curvature` and `peers` take about five minutes, `evidence`, `layers` and
    `scaling` ten.

    Examples: `covary bench evidence --repeats 3 --json`, `covary bench scaling --plot scaling.svg`.
    """
    if name not in WORKLOADS:
        raise CovaryError(f"no benchmark is called '{name}': expected one of {', '.join(WORKLOADS)}.")
    if plot is not None and name != "scaling":
        raise CovaryError(f"--plot draws the benchmark 'scaling'; '{name}' came. Leave it out, or run scaling.")
    if plot is not None:
        check_drawable(plot)  # now, not after the measurement
    with progress(name) as report:
        rows = WORKLOADS[name](repeats, report)
    if plot is not None:
        draw(scaling_figure(rows), plot)
    if as_json:
        echo_json(rows)
    else:
        print_rows(rows)
