"""Finished cells of a study of many networks, kept in a folder so that a killed study goes on where it was."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from .._errors import DataError, StructureError
from ..records import from_plain, write_text

__all__ = ["discard", "kept", "require_fresh"]

Record = TypeVar("Record")


def kept(
    folder: Path | None, name: str, settings: Mapping[str, Any], kind: type[Record], make: Callable[[], Record]
) -> Record:
    """The record of one cell: read where an earlier session finished it, else made, and written when it is complete.

    Arguments:
        folder: Where finished cells lie, one file each; None to keep none.
        name: What tells the cell from the others of its study.
        settings: What it is made with; one that was made with other settings is refused.
        kind: The frozen dataclass of the record.
        make: What makes it.
    """
    if folder is None:
        return make()
    path = folder / f"{re.sub(r'[^a-z0-9+]+', '-', name.lower())}.json"
    plain = json.loads(json.dumps(dict(settings)))
    if path.exists():
        return _read(path, plain, kind)
    record: Any = make()
    write_text(path, json.dumps({"settings": plain, "record": asdict(record)}, allow_nan=False) + "\n")
    made: Record = record
    return made


def require_fresh(folder: Path, resume: bool) -> None:
    """Nothing, or an error where cells of an unfinished study would be taken for those of this one."""
    if not resume and folder.exists():
        raise StructureError(
            f"{folder.parent} holds an unfinished study. Pass --resume to go on with it, or name another folder."
        )


def discard(folder: Path) -> None:
    """Nothing of the cells: the study they belong to is complete."""
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path, settings: Mapping[str, Any], kind: type[Record]) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        written, plain = content["settings"], content["record"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no finished cell of a study ({error}). Remove it to make the cell anew.") from error
    for name in settings.keys() | written.keys():
        if name != "data_dir" and written.get(name) != settings.get(name):
            raise StructureError(
                f"{path} was made with {name} = {written.get(name)!r:.60}; {settings.get(name)!r:.60} came. Resume "
                "with the same settings, or name another folder."
            )
    record: Record = from_plain(plain, kind, str(path))
    return record
