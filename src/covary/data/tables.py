"""Tables of numbers in text files: a `.csv` whose first row has the names of the columns."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from .._files import require_regular
from .._text import clipped, is_plain
from ..errors import DataError
from .dataset import Dataset, checked_targets, require_memory
from .layouts import table_from, targets_from

_BYTES_PER_CHARACTER = 8  # a number has at least two, and becomes a float64 and a float32


def load_table(path: Path, targets: Sequence[str]) -> Dataset:
    """Data set for regression of a `.csv` file, all numbers, without a test part.

    Arguments:
        path: The file: commas between columns, their names in the first row.
        targets: The names of the columns that are predicted from all others.
    """
    names, values = read_csv(path)
    if not targets:
        raise DataError(f"Expected the column to predict, such as --target {names[-1]:.40}; {_listed(names, path)}.")
    for name in targets:
        if name not in names:
            raise DataError(f"Expected a column of {path} as target, got {clipped(name)}; {_listed(names, path)}.")
    chosen = [names.index(name) for name in targets]
    others = [number for number, name in enumerate(names) if name not in targets]
    if not others:
        raise DataError(f"Expected columns beside the targets in {path}, got none: nothing to predict them from.")
    x, y = table_from(values[:, others], str(path)), targets_from(values[:, chosen], str(path))
    dataset = checked_targets((x, y), (x[:0].clone(), y[:0].clone()), str(path), path.stem)
    return dataset._replace(feature_names=tuple(names[number] for number in others), target_names=tuple(targets))


def read_columns(path: Path, features: Sequence[str] | int, targets: Sequence[str]) -> Float32[Tensor, "N F"]:
    """The features of a `.csv` to predict, in the order of the training data; columns of targets are not read.

    Arguments:
        features: The names of the features, or their number where the training data had no names.
        targets: The names of the targets, whose columns may be there or not.
    """
    names, values = read_csv(path)
    wanted = list(features) if not isinstance(features, int) else [name for name in names if name not in targets]
    missing, unknown = [n for n in wanted if n not in names], [n for n in names if n not in (*wanted, *targets)]
    if missing or unknown or (isinstance(features, int) and len(wanted) != features):
        expected = f"{features} columns" if isinstance(features, int) else f"the columns {_shown(wanted)}"
        raise DataError(f"Expected {expected} to predict from, as in training; {_listed(names, path)}.")
    return table_from(values[:, [names.index(name) for name in wanted]], str(path))


def read_csv(path: Path) -> tuple[list[str], Tensor]:
    """The names of the columns, and the numbers (N, columns) below them in float64."""
    try:
        require_regular(path)
        require_memory(str(path), _BYTES_PER_CHARACTER * path.stat().st_size)
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            names = [name.strip() for name in next(rows, [])]
            _check_names(names, path)
            numbers = [_numbers(row, names, number, path) for number, row in enumerate(rows, 2) if row]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a .csv file of text ({error}). Save it with commas, in UTF-8.") from error
    if not numbers:
        raise DataError(f"{path} has no rows below its first: expected the names of the columns, then numbers.")
    return names, torch.from_numpy(np.array(numbers))


def _check_names(names: Sequence[str], path: Path) -> None:
    if len(names) < 2:
        raise DataError(
            f"{path} has {len(names)} columns in its first row: expected two or more, with commas between their names."
        )
    if "" in names or len(set(names)) < len(names) or all(_number(name) is not None for name in names):
        raise DataError(f"{path} lacks names of its columns in the first row: expected a different one for each.")
    for name in names:
        if not is_plain(name):
            raise DataError(
                f"{path} has the column {clipped(name)}: expected text without control characters. Rename it."
            )


def _numbers(row: Sequence[str], names: Sequence[str], line: int, path: Path) -> list[float]:
    if len(row) != len(names):
        raise DataError(f"{path} has {len(row)} values in row {line}: expected {len(names)}, one for each column.")
    found = [_number(cell) for cell in row]
    if None in found:
        column = found.index(None)
        raise DataError(
            f"{path} has {clipped(row[column])} in row {line} of column '{names[column]:.40}': expected finite numbers "
            "only. Encode or remove the column, and fill in or remove rows with missing values."
        )
    return [value for value in found if value is not None]


def _number(text: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _listed(names: Sequence[str], path: Path) -> str:
    return f"the columns of {path.name} are {_shown(names)}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join(f"{name:.40}" for name in names[:20]) + (", …" if len(names) > 20 else "")
