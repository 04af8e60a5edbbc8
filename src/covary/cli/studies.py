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

# The names in `reproduce.STUDIES`, `reproduce.SCALES` and `benchmarks.WORKLOADS`, for a help without torch.
STUDY_NAMES = (
    *("toy", "recover", "table1", "table2", "figure5", "correlated", "sampling"),
    *("quadrant", "cifar-layers", "groups", "separable", "reparametrization", "sharpness"),
)
SCALE_NAMES = ("smoke", "cpu", "full", "paper")
WORKLOAD_NAMES = ("curvature", "evidence", "fit", "layers", "scaling", "peers", "coverage", "verdicts")
FIT_NAMES = ("mlp-5000", "cnn-5000", "resnet-3000", "mlp-60000", "cnn-prior")


def _name_of(names: Sequence[str]) -> Any:
    return typer.Argument(help=f"One of: {', '.join(names)}.", metavar="NAME", autocompletion=lambda: list(names))


def reproduce(
    name: Annotated[str, _name_of(STUDY_NAMES)],
    scale: Annotated[
        str,
        typer.Option(
            help="smoke (seconds), cpu (two cores), full (two cores for hours) or paper.",
            autocompletion=lambda: list(SCALE_NAMES),
        ),
    ] = "cpu",
    data: Annotated[str | None, typer.Option(help="The data set, of studies with several.")] = None,
    network: Annotated[str | None, typer.Option(help="The network, of studies with several.")] = None,
    num_train: Annotated[int | None, typer.Option(min=1, max=10**9, help="The number of training images.")] = None,
    num_seeds: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="The number of seeds, from the first one on.")
    ] = None,
    versions: Annotated[str, typer.Option(help="Versions of the data, joined by commas; all by default.")] = "",
    methods: Annotated[
        str, typer.Option(help="Methods of table1 and table2, joined by commas: plain, augerino, learned.")
    ] = "",
    epochs: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="The number of epochs, of table1 and table2.")
    ] = None,
    num_samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**4, help="The number of augmentation samples in weight steps, of table1 and table2."
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="How many networks are trained at once.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="The folder that is searched first for data sets.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for study.json and the figure.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue or extend the study in that folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the study in that folder.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce one table or figure of the papers, with its numbers as JSON and the claims that it tests.

    Writes `study.json`, `figure.svg` and `figure.png`. A study of several networks keeps a record of each in the folder
    `cells`, so that it can be interrupted, resumed, and extended by more versions or seeds.

    Examples: `covary reproduce toy`, `covary reproduce recover --scale cpu --data-dir ~/data`, `covary reproduce
    quadrant --resume`, `covary reproduce table1 --data fashion-mnist --network cnn
    --num-seeds 1 --versions original,scaled`.
    """
    from ..records import write_study
    from ..records.checksums import checksums
    from ..records.verify import CELLS, cell_names
    from ..reproduce import SCALES, STUDIES, Options, Request
    from ..reproduce.cells import STUDY, require_fresh
    from ..reproduce.figures import STUDY_FIGURES, study_table

    check_choice("study", name, STUDIES)
    check_choice("scale", scale, SCALES)
    check_seed(seed)
    chosen = tuple(version.replace("-", " ") for version in _names(versions))
    options = Options(data, network, num_train, num_seeds, chosen, processes, epochs, num_samples, _names(methods))
    request = Request(scale, seed, data_dir, options=options)
    STUDIES[name].check(name, request)
    folder = out or Path("runs") / f"{name}-{request.name}"
    cells = folder / CELLS
    with locked(folder):
        require_fresh(cells, resume, overwrite)
        require_writable(folder / STUDY)  # before the study, which an impossible path would lose
        with progress(name) as told:
            study = STUDIES[name].run(request._replace(progress=told, folder=cells))
        figures = {
            f"{stem}.{kind}": figure_of for stem, figure_of in STUDY_FIGURES[name].items() for kind in ("svg", "png")
        }
        for figure, figure_of in figures.items():
            write_whole(folder / figure, drawn(figure_of(study), Path(figure).suffix))
        files = checksums(folder, [*figures, *cell_names(folder)])
        write_study(replace(study, files=files), folder / STUDY)
    if as_json:
        echo_json(asdict(study))
        return
    print_rows(study.rows)
    if study.claims:
        show(study_table(study))
    else:
        echo(f"{study.title}. No claim is about these versions and methods alone.")
    echo(f"Numbers and figure are in {folder} ({study.seconds:.0f} s).")


def _names(joined: str) -> tuple[str, ...]:
    """The names in a list that is joined by commas."""
    return tuple(name.strip() for name in joined.split(",") if name.strip())


def bench(
    name: Annotated[str, _name_of(WORKLOAD_NAMES)],
    repeats: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Number of repeats of each measurement; 5, of whole runs 3.")
    ] = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the figure to this file (scaling: time and memory; fit: accuracy).")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help=f"Workloads of fit, joined by commas: {', '.join(FIT_NAMES)}.")
    ] = None,
) -> None:
    """Measure time and memory, as ratios to a training pass over the same images; `fit` measures whole runs.

    Run it on an idle machine: `curvature` and `peers` take about five minutes, `evidence`, `layers` and `scaling` ten,
    one repeat of a workload of `fit` three to thirty. `coverage` and `verdicts` measure no time but how often error
    bars of widths and verdicts are right, on twenty data sets and ten questions for each repeat.

    Examples: `covary bench evidence --repeats 3 --json`, `covary bench scaling --plot scaling.svg`, `covary bench fit
    --only mlp-5000,cnn-5000 --plot fit.svg`.
    """
    from functools import partial

    from ..benchmarks import WORKLOADS
    from ..benchmarks.figures import fit_figure, scaling_figure

    figures = {"scaling": scaling_figure, "fit": fit_figure}
    check_choice("benchmark", name, WORKLOADS)
    measure: Any = WORKLOADS[name]
    if only is not None:
        if name != "fit":
            raise CovaryError(f"--only selects workloads of the benchmark 'fit', got '{name}'. Remove --only.")
        chosen = tuple(only.replace(" ", "").split(","))
        for workload in chosen:
            check_choice("only", workload, FIT_NAMES)
        measure = partial(measure, names=chosen)
    if plot is not None and name not in figures:
        raise CovaryError(f"--plot draws the benchmarks 'scaling' and 'fit', got '{name}'. Remove --plot.")
    if plot is not None:
        check_drawable(plot)  # before the measurement
    with progress(name) as told:
        rows = measure(repeats or (3 if name == "fit" else 5), told)
    if plot is not None:
        draw(figures[name](rows), plot)
    if as_json:
        echo_json(rows)
    else:
        print_rows([{key: value for key, value in row.items() if key != "curve"} for row in rows])
