"""Folders in which the files of a data set may lie, in the order they are looked in."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["ENVIRONMENT_VARIABLE", "Search", "cache_dir", "search"]

ENVIRONMENT_VARIABLE = "COVARY_DATA"


class Search(NamedTuple):
    """What looking for a set of files came to."""

    files: tuple[Path, ...]  # in the order asked for; empty when no folder holds them all
    looked: tuple[str, ...]  # one phrase per folder: where, and what was missing there


def search(folders: Iterable[str], names: Iterable[str], data_dir: Path | None = None) -> Search:
    """The files called `names`, packed or not, from the first place that holds all of them in one of `folders`.

    Places are `data_dir`, then `$COVARY_DATA`, then the user's cache.
    """
    names, looked = tuple(names), []
    for root in _roots(data_dir):
        for folder in (root / name for name in folders):
            found = tuple(_packed_or_not(folder / name) for name in names)
            files = tuple(path for path in found if path is not None)
            if len(files) == len(names):
                return Search(files, ())
            if files:
                missing = ", ".join(name for name, path in zip(names, found, strict=True) if path is None)
                looked.append(f"{folder} (lacks {missing})")
            elif folder.is_dir() or not looked or not looked[-1].startswith(str(root)):
                looked.append(str(folder))
    return Search((), tuple(looked))


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


def _roots(data_dir: Path | None) -> list[Path]:
    variable = os.environ.get(ENVIRONMENT_VARIABLE)
    roots = [data_dir, Path(variable) if variable else None, cache_dir()]
    return [root for root in roots if root is not None]


def _packed_or_not(path: Path) -> Path | None:
    packed = path.with_name(path.name + ".gz")
    return packed if packed.is_file() else path if path.is_file() else None
