"""Commands on saved runs: `covary predict`, `report`, `compare`, `verify`, `verdict` and `geometry`."""

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from .._files import require_named_writable, require_writable, write_named, write_whole
from .._text import plural
from ..errors import CovaryError
from .output import Json, check_drawable, draw, drawn, echo_json, print_rows, progress
from .terminal import echo, echo_line, show

Run = Annotated[Path, typer.Argument(help="The folder of a run, or its run.json.", metavar="RUN")]
TrainingData = Annotated[str | None, typer.Option(help="The training data, in place of those that the record names.")]
DataDir = Annotated[str | None, typer.Option(help="The folder that is searched first for data sets.")]
OwnNetwork = Annotated[str | None, typer.Option(help="package.module:function, for a run with a network of your own.")]
TrustCode = Annotated[bool, typer.Option("--trust-code", help="Import and call the functions that the record names.")]


def predict(
    run: Run,
    data: Annotated[
        str, typer.Option(help="A folder of images, an .npz, a .csv, a data set by name, or package.module:function.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A file that ends in .csv or .json; by default standard output.")
    ] = None,
    network: OwnNetwork = None,
    num_samples: Annotated[
        int | None, typer.Option(help="Augmentation samples per image; by default as in training.", min=1)
    ] = None,
    train_data: Annotated[
        str | None, typer.Option(help="The training data of a regression, in place of those that the record names.")
    ] = None,
    data_dir: DataDir = None,
    trust_code: TrustCode = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV.")] = False,
) -> None:
    """Write class, probability and uncertainty of each image, or mean and deviation of each target, as CSV or JSON.

    `image` is the file below the folder, or the number of the image; `probability` that of the predicted class;
    `uncertainty` the entropy of the predicted probabilities in nats, from 0 (certain) to the logarithm of the number of
    classes. A folder needs no class folders, and an archive no labels: `x`, `x_test` or `x_train`. Of a data set the
    test images are predicted. Image files are resampled to the size of the run. A network of your own is made by
    `--network` or, with `--trust-code`, by the function that the record names.

    Of a regression, `TARGET_mean` and `TARGET_std` are mean and standard deviation of a new observation, in the
    target's unit: of the noise and of the weights, whose posterior takes a pass over the training data. A `.csv` has
    the columns of the training data by name; columns of targets are not read.

    Examples: `covary predict runs/latest --data photos/ --out classes.csv`, `covary predict runs/latest --data
    mnist-mini --num-samples 32 --json`, `covary predict runs/houses --data new.csv`.
    """
    from ..experiments import Replacements, predictions

    if out is not None and out.suffix.lower() not in (".csv", ".json"):
        raise CovaryError(f"Expected --out to end in .csv or .json, got '{out}'.")
    require_finished(run)
    if out is not None:
        require_named_writable(out)  # before the work
    given = Replacements(train_data, data_dir, network, trust_code, option="train-data")
    rows = predictions(run, data, given=given, num_samples=num_samples)
    if as_json if out is None else out.suffix.lower() == ".json":
        text = json.dumps(rows, indent=2) + "\n"
    else:
        lines = io.StringIO()
        writer = csv.DictWriter(lines, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = lines.getvalue()
    if out is None:
        echo(text, nl=False)
    else:
        write_named(out, text.encode("utf-8", "surrogateescape"))  # a file name may have bytes that are no text
        echo(f"The predictions of {plural(len(rows), next(iter(rows[0])))} are in {out}.")


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The HTML file; by default RUN/report.html.")] = None,
) -> None:
    """Draw the report of a run from its record, without training.

    Examples: `covary report runs/latest`, `covary report runs/latest --out page.html`.
    """
    from ..records import read_run
    from ..records.checksums import sealed_page
    from ..report import page, write_page

    require_finished(run)
    path = out or run_folder(run) / "report.html"
    if out is None:
        write_page(read_run(run), path)
    else:
        require_named_writable(out)
        record = read_run(run)
        write_named(out, sealed_page(page(record), asdict(record)).encode("utf-8"))
    echo(f"The report is in {path}.")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more folders of runs.", metavar="RUN RUN...")],
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison to this file, such as compare.svg.")] = None,
    correction: Annotated[
        str | None, typer.Option(help="Correct the evidences for what KFAC neglects: auto, exact or lanczos.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The training data of a correction, in place of those that the records name.")
    ] = None,
    data_dir: DataDir = None,
    network: OwnNetwork = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Rank runs by their log evidence, with its terms and the log Bayes factors against the best.

    Evidences of different data, or in different parametrizations, cannot be compared: there is a warning for each such
    difference, and the runs are listed without ranks and Bayes factors.

    KFAC treats layers as independent and overstates the price of complexity. `--correction` computes the evidence of
    the whole Gauss–Newton matrix, exactly where memory allows it or by Lanczos quadrature with a standard error, and
    writes it into each folder as `evidence.json`; later comparisons use it where all runs have it. Where two runs are
    closer than the error, a sentence says so.

    Examples: `covary compare runs/affine runs/flips`, `covary compare runs/* --correction auto --json`.
    """
    from ..records import read_run
    from ..records.files import with_corrected
    from ..report import comparability, comparison, comparison_figure
    from ..report.tables import comparison_table, undecided

    if len(runs) < 2:
        raise CovaryError(f"Expected two or more runs to compare, got {len(runs)}.")
    if plot is not None:
        check_drawable(plot)
    if correction is not None:
        _correct(runs, correction, data, data_dir, network, trust_code)
    records = [read_run(path) for path in runs]
    better = [with_corrected(record, run_folder(path)) for path, record in zip(runs, records, strict=True)]
    whole = all(record.evidence is not None and record.evidence.corrected_by for record in better)
    # titles of two runs on the same data are equal: the folder distinguishes them
    named = zip(runs, better if whole else records, strict=True)
    found = [replace(record, title=f"{path}: {record.title}") for path, record in named]
    if plot is not None:
        draw(comparison_figure(found), plot)
    if as_json:
        echo_json({"runs": comparison(found), "warnings": comparability(found) + undecided(found)})
    else:
        show(comparison_table(found))


def verify(
    run: Annotated[Path, typer.Argument(help="The folder of a run or a study.", metavar="RUN")],
    as_json: Json = False,
) -> None:
    """Compare every file of a run or a study with the SHA-256 that was recorded when it was written.

    `run.json`, `study.json`, `report.html` and checkpoints state their own checksum; the others are in the record.
    Exits with 2 if a file is damaged, missing or of another run. Files that covary did not write are listed, and are no
    error.

    Examples: `covary verify runs/latest`, `covary verify runs/latest --json`.
    """
    from ..records import FileCheck, verify

    unfinished = run / "checkpoints"
    found: list[FileCheck] = [] if unfinished.is_dir() and not (run / "run.json").exists() else verify(run)
    if unfinished.is_dir():
        from ..training.checkpoint import verify_checkpoints

        found += verify_checkpoints(unfinished)
    if as_json:
        echo_json([asdict(check) for check in found])
    else:
        print_rows([{"file": check.name, "state": check.state} for check in found])
    bad = [f"{check.name} ({check.state})" for check in found if check.state not in ("ok", "not in the record")]
    if bad:
        raise CovaryError(f"'{run}' is not what was written: {', '.join(bad)}. Restore these files, or run it again.")


def geometry(
    run: Run,
    images: Annotated[
        int | None, typer.Option(help="Number of training images; by default 500 with their samples.", min=1)
    ] = None,
    data: TrainingData = None,
    data_dir: DataDir = None,
    network: OwnNetwork = None,
    trust_code: TrustCode = False,
    seed: Annotated[int, typer.Option(help="The seed of the random probes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The folder for geometry.json and geometry.svg; by default RUN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure sharpness and evidence of a saved network, naive and metric-aware, in Cartesian and polar coordinates.

    Naive numbers depend on the parametrization of the weights; metric-aware ones do not. The metric is the prior's
    precision. Every number has its 95 % error. Writes `geometry.json` and `geometry.svg`. Functions of your own that
    made the data or the network are passed again, by `--data` and `--network`; with `--trust-code`, those that the
    record names are called.

    Examples: `covary geometry runs/latest`, `covary geometry runs/latest --images 2000 --json`.
    """
    from ..experiments import Replacements, saved_geometry
    from ..experiments.geometry_figure import geometry_figure, geometry_table
    from ..records import write_study
    from ..records.checksums import checksums
    from ..reproduce.figures import study_table

    folder = out or run_folder(run)
    for name in ("geometry.json", "geometry.svg"):
        require_writable(folder / name)  # before the work, which an impossible path would lose
    given = Replacements(data, data_dir, network, trust_code)
    with progress("geometry") as told:
        found = saved_geometry(run, given, images, seed, told)
    write_whole(folder / "geometry.svg", drawn(geometry_figure(found), ".svg"))
    files = checksums(folder, ["geometry.svg"]) | checksums(run_folder(run), ["model.safetensors"])
    write_study(replace(found, files=files), folder / "geometry.json")
    if as_json:
        echo_json(asdict(found))
        return
    claims = study_table(replace(found, title="Dependence on the parametrization"))
    show(geometry_table(found), claims)
    echo(f"Numbers and figure are in {folder} ({found.seconds:.0f} s).")


def _correct(
    runs: list[Path], method: str, data: str | None, data_dir: str | None, network: str | None, trust_code: bool
) -> None:
    """Compute the corrected evidence of every run, and write it into its folder."""
    from ..evidence.correction import as_correction
    from ..experiments import Replacements, corrected_evidence
    from ..records import read_run
    from ..records.files import write_evidence

    wanted, given = as_correction(method), Replacements(data, data_dir, network, trust_code)
    for run in runs:
        require_finished(run)
        require_writable(run_folder(run) / "evidence.json")
    with progress("correction") as told:
        for number, run in enumerate(runs):
            told(str(run), number / len(runs))
            write_evidence(corrected_evidence(run, wanted, given), read_run(run), run_folder(run))


def require_finished(run: Path) -> None:
    """Raise `CovaryError` for a run that has checkpoints and no record yet."""
    if (run / "checkpoints").is_dir() and not (run / "run.json").exists():
        raise CovaryError(f"{run} holds an unfinished run. Continue it with the same command and --resume.")


def run_folder(run: Path) -> Path:
    """The folder of a run that is named by it, or by its `run.json`."""
    return run if run.is_dir() else run.parent


def verdict(
    run: Run,
    symmetry: Annotated[
        list[str] | None, typer.Option(help="A symmetry by name, such as rotation; may be repeated. All by default.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of each continuation; by default a quarter of the run's.", min=2)
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Continuations of each kind, which give the error.", min=2, max=1000)
    ] = 2,
    data: TrainingData = None,
    data_dir: DataDir = None,
    network: OwnNetwork = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Decide for each symmetry whether the data have it: yes, no or undecided, by log Bayes factors with errors.

    The run is continued for a few epochs with the learned widths, with each width at 0 and with each at its maximum.
    K symmetries take 2 K + 1 continuations for each repeat. The verdicts are written into `run.json`, and the report is
    drawn again if there is one. Functions of your own that made the data or the network are passed again, by `--data`
    and `--network`; with `--trust-code`, those that the record names are called.

    Examples: `covary verdict runs/latest`, `covary verdict runs/latest --symmetry rotation --json`.
    """
    from ..experiments import Replacements, saved_verdict
    from ..records.summary import verdict_sentences
    from ..records.tables import verdict_rows
    from ..records.words import plain_name
    from ..report import write_page
    from ..report.tables import table
    from ..training.verdicts import UNDERTRAINED

    require_finished(run)
    folder = run_folder(run)
    if not (folder / "run.json").is_file():
        raise CovaryError(f"Expected the folder of a run, got '{run}' without run.json.")
    require_writable(folder / "run.json")  # before the work
    given = Replacements(data, data_dir, network, trust_code)
    with progress("verdict", lines=True) as told:
        record = saved_verdict(run, given, symmetry, epochs=epochs, num_repeats=repeats, progress=told)
    if (folder / "report.html").is_file():
        write_page(record, folder / "report.html")
    names = [plain_name(each.name) for each in record.verdicts if each.reason == UNDERTRAINED]
    if names:
        echo_line(
            f"warning: The network is undertrained, so that {', '.join(names)} cannot be decided yet. "
            "Pass more --epochs, or train the run for longer."
        )
    if as_json:
        echo_json([asdict(each) for each in record.verdicts])
        return
    show(table(*verdict_rows(record)))
    for sentence in verdict_sentences(record):
        echo(sentence)
    echo(f"The verdicts are in {folder / 'run.json'}.")
