"""`covary reproduce` and `covary bench`: tables and figures of the papers, time and memory."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .._files import require_writable, write_whole
from .._lock import locked
from ..config import check_seed
from ..config.settings import check_choice
from ..errors import CovaryError
from .output import Json, check_drawable, draw, drawn, echo_json, print_rows, progress
from .terminal import echo, show

CELLS = "cells"  # below the folder of a study
# The names in `reproduce.STUDIES`, `reproduce.SCALES` and `benchmarks.WORKLOADS`, for a help without torch.
STUDY_NAMES = (
    *("toy", "recover", "mnist-mlp", "sampling"),
    *("quadrant", "cifar-layers", "groups", "separable", "reparametrization"),
)
SCALE_NAMES = ("smoke", "cpu", "paper")
WORKLOAD_NAMES = ("curvature", "evidence", "layers", "scaling", "peers")


def _name_of(names: Sequence[str]) -> Any:
    return typer.Argument(help=f"One of: {', '.join(names)}.", metavar="NAME", autocompletion=lambda: list(names))


def reproduce(
    name: Annotated[str, _name_of(STUDY_NAMES)],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), cpu (two cores) or paper.", autocompletion=lambda: list(SCALE_NAMES))
    ] = "cpu",
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="The folder that is searched first for data sets.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for study.json and the figure.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a study that was interrupted.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the study in that folder.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce one table or figure of the papers, with its numbers as JSON and the claims that it tests.

    Writes `study.json`, `figure.svg` and `figure.png`. A study of several networks keeps each finished one in the
    folder until it is complete, so that it can be interrupted and resumed.

    Examples: `covary reproduce toy`, `covary reproduce recover --scale cpu --data-dir ~/data`, `covary reproduce
    quadrant --resume`, `covary reproduce mnist-mlp --scale smoke --json`.
    """
    from ..records import write_study
    from ..records.checksums import checksums
    from ..reproduce import SCALES, STUDIES, Request
    from ..reproduce.cells import STUDY, discard, require_fresh
    from ..reproduce.figures import STUDY_FIGURES, study_table

    check_choice("study", name, STUDIES)
    check_choice("scale", scale, SCALES)
    check_seed(seed)
    folder = out or Path("runs") / f"{name}-{scale}"
    cells = folder / CELLS
    with locked(folder):
        require_fresh(cells, resume, overwrite)
        require_writable(folder / STUDY)  # before the study, which an impossible path would lose
        with progress(name) as told:
            study = STUDIES[name](Request(scale, seed, data_dir, told, cells))
        figures = [f"figure.{kind}" for kind in ("svg", "png")]
        for figure in figures:
            write_whole(folder / figure, drawn(STUDY_FIGURES[name](study), Path(figure).suffix))
        write_study(replace(study, files=checksums(folder, figures)), folder / STUDY)
        discard(cells)
    if as_json:
        echo_json(asdict(study))
        return
    print_rows(study.rows)
    show(study_table(study))
    echo(f"Numbers and figure are in {folder} ({study.seconds:.0f} s).")


def bench(
    name: Annotated[str, _name_of(WORKLOAD_NAMES)],
    repeats: Annotated[int, typer.Option(min=1, help="Number of repeats of each measurement.")] = 5,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw time and memory against size to this file (scaling only).")
    ] = None,
) -> None:
    """Measure time and memory, as ratios to a training pass over the same images.

    Run it on an idle machine: `curvature` and `peers` take about five minutes, `evidence`, `layers` and `scaling` ten.

    Examples: `covary bench evidence --repeats 3 --json`, `covary bench scaling --plot scaling.svg`.
    """
    from ..benchmarks import WORKLOADS
    from ..benchmarks.scaling_figure import scaling_figure

    check_choice("benchmark", name, WORKLOADS)
    if plot is not None and name != "scaling":
        raise CovaryError(f"--plot draws the benchmark 'scaling', got '{name}'. Remove --plot, or run scaling.")
    if plot is not None:
        check_drawable(plot)  # before the measurement
    with progress(name) as told:
        rows = WORKLOADS[name](repeats, told)
    if plot is not None:
        draw(scaling_figure(rows), plot)
    if as_json:
        echo_json(rows)
    else:
        print_rows(rows)
