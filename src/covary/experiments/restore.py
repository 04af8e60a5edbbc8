"""A saved run with its training data, as its record describes them: what commands on saved runs start from."""

from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import torch

from .._text import clipped
from ..config import ExperimentConfig, FitConfig
from ..data.sets import is_function as is_data_function
from ..errors import DataError, StructureError
from ..models import Model
from ..networks.named import is_function as is_network_function
from ..records import RunRecord
from ..training.storage import MODEL, load_model
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
        run: The record.
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
