"""`covary verdict`: whether the data of a saved run have each symmetry."""

from dataclasses import asdict
from typing import Annotated

import typer

from .._files import require_writable
from ..errors import CovaryError
from ..records.summary import verdict_sentences
from ..records.words import plain_name
from .output import Json, echo_json, progress
from .saved import DataDir, OwnNetwork, Run, TrainingData, TrustCode, require_finished, run_folder
from .terminal import echo, echo_line, show


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
    from ..report import write_page
    from ..report.tables import verdicts_table
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
    show(verdicts_table(record))
    for sentence in verdict_sentences(record):
        echo(sentence)
    echo(f"The verdicts are in {folder / 'run.json'}.")
