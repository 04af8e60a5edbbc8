"""The run that a folder has already: complete, or begun and not finished; and whether a command may go on with it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .._files import remove_folder, remove_rest, write_text
from .._lock import remove_leftovers
from ..data import Dataset
from ..errors import DataError, StructureError
from ..records import RunRecord, read_run
from ..records.checksums import read_sealed, sealed
from ..records.words import flat_settings, spelled
from ..training.checkpoint import checkpoint_files

CHECKPOINTS, SETTINGS, RUN = "checkpoints", "settings.json", "run.json"
DATA_SHA256 = "data_sha256"  # among the settings of a complete run


class Begun(NamedTuple):
    """What a run was started with."""

    settings: Mapping[str, Any]  # every setting, as JSON has it
    data: str | None  # the SHA-256 of the data, or None where it is not known


class Earlier(NamedTuple):
    """The earlier run that a command continues: one that was begun, or a complete one, or none."""

    begun: Begun | None = None
    complete: RunRecord | None = None


def earlier_run(out: Path, resume: bool, overwrite: bool) -> Earlier:
    """The run in a folder that is resumed; raise `StructureError` if one is there and would be lost.

    What a killed process left half removed is removed.
    """
    folder = out / CHECKPOINTS
    remove_rest(folder)
    remove_leftovers(folder)
    if overwrite:
        return Earlier()
    if not resume:
        _require_free(out)
        return Earlier()
    if (folder / SETTINGS).exists() or has_checkpoints(folder):
        return Earlier(begun=_read(folder / SETTINGS))
    run = read_run(out) if (out / RUN).exists() else None
    return Earlier(complete=run if run is not None and run.complete else None)


def has_checkpoints(folder: Path) -> bool:
    """Whether a fit of the run has written a checkpoint."""
    return any(checkpoint_files(part) for part in folder.glob("*"))


def _require_free(out: Path) -> None:
    if has_checkpoints(out / CHECKPOINTS):
        raise StructureError(
            f"'{out}' has an unfinished run. Pass --resume to continue it, --overwrite to replace it, or name another "
            "folder."
        )
    if (out / RUN).exists():
        raise StructureError(
            f"'{out}' has a complete run. Pass --overwrite to replace it, --resume to show it again, or name another "
            "folder."
        )


def begin(folder: Path, start: Begun) -> None:
    """Remove the checkpoints of an earlier run, and write what this one is started with."""
    remove_folder(folder)
    write_text(folder / SETTINGS, json.dumps(sealed({"settings": start.settings, DATA_SHA256: start.data})) + "\n")


def checksum_of(dataset: Dataset) -> str:
    """The SHA-256 of the training and test data and of the names of the classes."""
    total = hashlib.sha256(json.dumps(list(dataset.class_names)).encode())
    for tensor in (*dataset.train, *dataset.test):
        total.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        total.update(tensor.contiguous().numpy().data)
    return total.hexdigest()


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are read from JSON: tuples are lists."""
    return json.loads(json.dumps(dict(settings), allow_nan=False))


def compare(written: Begun, start: Begun, out: Path) -> None:
    """Raise `StructureError` that names the setting, or the data, by which a run differs from the one in the folder."""
    before = flat_settings(written.settings)
    free = ("data_dir", "device", *("data",) * (written.data is not None and written.data == start.data))
    for name, value in flat_settings(start.settings).items():
        if name not in before:
            raise StructureError(
                f"'{out}' has a run of an earlier covary, which knew no {name}. Start anew in another folder."
            )
        if name not in free and spelled(name, before[name]) != spelled(name, value):
            raise StructureError(
                f"'{out}' has a run with {name} = {before[name]!r:.60}, got {value!r:.60}. Resume with the same "
                "settings, pass --overwrite to replace it, or name another folder."
            )
    if written.data != start.data:
        raise StructureError(
            f"'{out}' has a run with the same settings on other data: their SHA-256 was {written.data!s:.12}…, got "
            f"{start.data:.12}…. Resume with those data, pass --overwrite to replace it, or name another folder."
        )


def _read(path: Path) -> Begun:
    try:
        content = read_sealed(path)
        return Begun(dict(content["settings"]), content[DATA_SHA256])
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read ({error}). Pass --overwrite to start anew, or name another folder."
        ) from error
