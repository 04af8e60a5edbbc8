"""Folders in which the files of a data set may lie, in the order they are looked in."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .sources import NAMES, SOURCES, Source

ENVIRONMENT_VARIABLE = "COVARY_DATA"
PACKINGS = (".gz", ".xz", "")


class _Look(NamedTuple):
    """What one folder holds of the files that were looked for."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def locate(name: str, data_dir: str | Path | None = None) -> tuple[Path, ...]:
    """The files of the data set called `name`, packed or not, in the order its reader takes them.

    They all come from the first folder that lacks none: below `data_dir`, then `$COVARY_DATA`, then the user's cache.
    """
    source, place = source_of(name), directory(data_dir)
    if source.embedded is not None:
        return _look(source, source.embedded).files
    looked: list[str] = []
    for root in _roots(place):
        for folder in (root / below for below in source.folders):
            files, missing = _look(source, folder)
            if not missing:
                return files
            if files:
                looked.append(f"{folder} (lacks {', '.join(missing)})")
            elif folder.is_dir() or not looked or not looked[-1].startswith(str(root)):
                looked.append(str(folder))
    raise DataError(
        f"Data set '{name}' was not found; looked in {', '.join(looked)}. Fetch it with covary.data.fetch('{name}'), "
        f"put its files ({next(iter(source.sums))} and so on, packed or not) into {cache_dir() / name}, or name the "
        f"directory above that folder by a data directory or by ${ENVIRONMENT_VARIABLE}."
    )


def source_of(name: str) -> Source:
    """The row of the table of sources called `name`."""
    if name not in SOURCES:
        raise DataError(f"No data set is called '{name}': expected one of {', '.join(NAMES)}.")
    return SOURCES[name]


def directory(data_dir: str | Path | None) -> Path | None:
    """The directory a user named: one that is not there is a slip, not a place to pass over."""
    if data_dir is None or Path(data_dir).is_dir():
        return None if data_dir is None else Path(data_dir)
    raise DataError(f"The data directory {data_dir} is no folder. Name one that exists, or leave it out.")


def cache_dir() -> Path:
    """The folder for data sets in the user's cache, whether or not it exists."""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "covary"


def packed_or_not(path: Path) -> Path | None:
    """The file at `path` or, before it, at `path` with the ending of a packing; None where there is neither."""
    candidates = (path.with_name(path.name + packing) for packing in PACKINGS)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _roots(data_dir: Path | None) -> list[Path]:
    variable = os.environ.get(ENVIRONMENT_VARIABLE)
    roots = [data_dir, Path(variable) if variable else None, cache_dir()]
    return [root for root in roots if root is not None]


def _look(source: Source, folder: Path) -> _Look:
    found = {file: packed_or_not(folder / file) for file in source.sums}
    files = tuple(path for path in found.values() if path is not None)
    return _Look(files, tuple(file for file, path in found.items() if path is None and file not in source.optional))
