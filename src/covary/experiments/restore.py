"""A saved run with its training data, as its record describes them: what commands on saved runs start from.

And what changes its record alone: a corrected evidence, `covary compare --correction`, and verdicts on its symmetries.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import torch

from .._lock import locked
from .._text import clipped
from .._types import Progress, Resampling
from ..config import ExperimentConfig, FitConfig
from ..data.dataset import Augmented
from ..data.sets import is_function as is_data_function
from ..data.transforms import flips_and_shifts
from ..errors import DataError, StructureError
from ..evidence import Correction, log_evidence
from ..models import Model
from ..networks.named import is_function as is_network_function
from ..records import Evidence, RunRecord, read_run, write_run
from ..training import Run, verdict
from ..training.ascent import evaluated_curvature, evidence_record
from ..training.schedule import EVALUATE, filled_in, seed_for
from ..training.storage import MODEL, load_model
from .augmentations import augmentations_with
from .begun import DATA_SHA256, checksum_of
from .build import NO_BASELINES, Task, model, prepared
from .resources import require_weights

AT_THE_START = {"relaxation": 1.0}  # settings of where training began, which a trained network does not show


class Replacements(NamedTuple):
    """What the user passes in place of what a record names.

    Arguments:
        data: The training data, as for `covary.data.load`; None for those of the record.
        data_dir: The directory to look in first for data sets; None for that of the record.
        network: The network, by name or as "package.module:function"; None for that of the record.
        trust_code: Whether functions that the record names may be imported and called.
        option: The name of the command's option for the training data.

    Example:
        >>> from covary.experiments import Replacements
        >>> Replacements(network="mine:network").trust_code
        False
    """

    data: str | None = None
    data_dir: str | None = None
    network: str | None = None
    trust_code: bool = False
    option: str = "data"


NOTHING = Replacements()


class Restored(NamedTuple):
    """A saved model with the settings and the training data that it was made with."""

    config: ExperimentConfig
    task: Task
    model: Model


def restored(run: RunRecord, folder: Path, given: Replacements, *, same_data: bool = False) -> Restored:
    """The model of a run, its settings, and the training data.

    Arguments:
        folder: The folder of the run, or its run.json.
        given: What to use in place of what the record names.
        same_data: Whether data with another checksum than those of the run are an error.
    """
    config, place = saved_config(run, folder, given), folder if folder.is_dir() else folder.parent
    task = prepared(config)
    if same_data and run.config.get(DATA_SHA256) not in (None, checksum_of(task.dataset)):
        raise StructureError(
            f"The data are not those that the run in '{place}' was trained on: their SHA-256 differs. Evidences and "
            f"posteriors hold for those data only; name them with --{given.option}."
        )
    require_weights(config, task)
    found = load_model(run, place, model(config, task))
    for name, tensor in found.network.state_dict().items():
        if tensor.is_floating_point() and tensor.dtype != getattr(torch, config.dtype):
            raise DataError(
                f"'{place / MODEL}' has '{name}' in {str(tensor.dtype).removeprefix('torch.')}, but the run is in "
                f"{config.dtype}. Restore the file, or run it again."
            )
    return Restored(config, task, found)


def saved_config(run: RunRecord, folder: Path, given: Replacements) -> ExperimentConfig:
    """The settings that the run's own network was made with, without those of its baselines."""
    names = [part.name for part in fields(ExperimentConfig) if part.name != "fit"] + list(FitConfig().as_dict())
    missing = [name for name in names if name not in run.config]
    if missing:
        raise StructureError(
            f"{folder} does not keep how its network was made: its settings lack '{missing[0]}'. Expected a run of "
            "`covary discover` or `covary layers`; for a network of your own, call covary.geometry.sharpness, "
            "covary.evidence.chart_evidence or covary.verdict."
        )
    passed = {name: value for name in ("data", "data_dir", "network") if (value := getattr(given, name)) is not None}
    written = {name: run.config[name] for name in names}
    config = ExperimentConfig().replace(**written | AT_THE_START | NO_BASELINES | passed)
    for name, option, is_code in (
        ("data", given.option, is_data_function),
        ("network", "network", is_network_function),
    ):
        if name not in passed and not given.trust_code and is_code(written[name]):
            raise StructureError(
                f"The record names a function as '{name}', {clipped(written[name])}, and nothing in a record is called "
                f"by itself. Pass `--{option} package.module:function`, or --trust-code if you trust the folder and "
                "its record."
            )
    return config


def corrected_evidence(folder: Path, correction: Correction, given: Replacements = NOTHING) -> Evidence:
    """The evidence of a saved run with the log-volume of the whole Gauss–Newton matrix, and its standard error.

    The training data are those that the record names, unless others are given; the number of augmentation samples is
    that of the run's evaluations.

    Arguments:
        folder: The folder of a run of `discover` or `layers`.
        correction: How to correct it.
        given: What to use in place of what the record names.

    Example:
        >>> from pathlib import Path
        >>> from covary.evidence import Correction
        >>> from covary.experiments import corrected_evidence
        >>> corrected_evidence(Path("runs/latest"), Correction("lanczos"))  # doctest: +SKIP
    """
    run = read_run(folder)
    config, task, model = restored(run, folder, given, same_data=True)
    network, fit = model.network, filled_in(config.fit, len(task.dataset.x_train))
    if isinstance(network, Resampling) and fit.evaluation.num_samples is not None:
        network = network.with_samples(fit.evaluation.num_samples)
    curvature, seed = evaluated_curvature(fit), seed_for(fit.seed, EVALUATE)
    whole = Model(network, model.likelihood, model.prior)
    terms = log_evidence(whole, task.dataset.train, curvature, seed=seed, correction=correction)
    return evidence_record(terms, fit.curvature, fit.evaluation.probes)


def saved_verdict(
    folder: Path,
    given: Replacements,
    names: Sequence[str] | None = None,
    *,
    epochs: int | None = None,
    num_repeats: int = 2,
    progress: Progress | None = None,
) -> RunRecord:
    """Return the record of a saved run with a verdict on each symmetry, which its `run.json` then has too.

    Arguments:
        folder: The folder of a run of `discover`.
        given: What to use in place of what the record names.
        names: The symmetries; all by default.
        epochs: Epochs of each continuation; by default a quarter of those of the run, at least 4.
        num_repeats: Continuations of each kind.
        progress: Called with the current step and the fraction of the work that is done.
    """
    place = folder if folder.is_dir() else folder.parent
    with locked(place):
        record = read_run(folder)
        if record.config.get("augment") == "none":
            raise StructureError(f"The run in '{place}' learned no augmentation: it has no symmetry to decide on.")
        _check_names(record, names or ())
        config, task, model = restored(record, folder, given, same_data=True)
        train = task.dataset.train
        data = Augmented(train, flips_and_shifts) if config.train_augment == "flips+shifts" else train
        found = verdict(Run(model, record), data, names, epochs=epochs, num_repeats=num_repeats, progress=progress)
        kept = [earlier for earlier in record.verdicts if earlier.name not in {new.name for new in found}]
        order = [symmetry.name for symmetry in record.symmetries]
        updated = replace(record, verdicts=sorted([*kept, *found], key=lambda each: order.index(each.name)))
        write_run(updated, place / "run.json")
    return updated


def _check_names(record: RunRecord, names: Sequence[str]) -> None:
    """Raise `StructureError` for the name of a symmetry that another augmentation has."""
    learned = [symmetry.name for symmetry in record.symmetries]
    for name in names:
        if name not in learned and (having := augmentations_with(name)):
            raise StructureError(
                f"Expected symmetries among {', '.join(learned)}, got '{name}', which this run did not learn. To "
                f"decide on it, train with --augment {having[0]}."
            )
