"""`covary reproduce`: can a table or figure of the papers be made again?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..config import check_seed
from ..errors import CovaryError
from ..records import write_study
from ..reproduce import SCALES, STUDIES
from ..reproduce.cells import STUDY, discard, require_fresh
from ..reproduce.figures import STUDY_FIGURES, study_table
from .app import app
from .output import Json, draw, echo_json, print_rows, progress

CELLS = "cells"  # below the folder of a study


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(STUDIES)}.", metavar="NAME")],
    scale: Annotated[str, typer.Option(help="smoke (seconds), cpu (two cores) or paper.")] = "cpu",
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Where to look first for data sets.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for study.json and the figure.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the networks that a killed study had finished.")] = False,
    as_json: Json = False,
) -> None:
    """Make one table or figure of the papers again, with its numbers as JSON and what they were to show.

    Writes `study.json`, `figure.svg` and `figure.png`. A study of many networks keeps each finished one in the folder
    until it is complete, so that it can be killed and resumed.

    Examples: `covary reproduce toy`, `covary reproduce recover --scale cpu --data-dir ~/data`, `covary reproduce
    quadrant --resume`, `covary reproduce mnist-mlp --scale smoke --json`.
    """
    if name not in STUDIES:
        raise CovaryError(f"no study is called '{name}': expected one of {', '.join(STUDIES)}.")
    if scale not in SCALES:
        raise CovaryError(f"no scale is called '{scale}': expected one of {', '.join(SCALES)}.")
    check_seed(seed)
    folder = out or Path("runs") / f"{name}-{scale}"
    cells = folder / CELLS
    require_fresh(cells, resume)
    folder.mkdir(parents=True, exist_ok=True)  # now, not after the study: a place that cannot be would lose it
    with progress(name) as report:
        study = STUDIES[name](scale, seed, data_dir, report, cells)
    write_study(study, folder / STUDY)
    for kind in ("svg", "png"):
        draw(STUDY_FIGURES[name](study), folder / f"figure.{kind}")
    discard(cells)
    if as_json:
        echo_json(asdict(study))
        return
    print_rows(study.rows)
    Console().print(study_table(study))
    typer.echo(f"Numbers and figure lie in {folder} ({study.seconds:.0f} s).")
