"""Augmentation distributions as JSON, and back: plain data, checked field by field; nothing is executed."""

import json
import math
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from .._files import require_regular, write_text
from ..errors import CovaryError, DataError
from ..groups.affine import AFFINE_NAMES, PADDINGS
from ..groups.square import DIHEDRAL_NAMES
from .affine import Affine2d, Correlated, Rotation2d
from .color import COLOR_NAMES, ColorJitter
from .composed import Composed
from .finite import MIRROR_NAMES, FiniteGroup, Mirror3d
from .generators import LearnedGenerators
from .limits import bounded
from .outputs import MovedBoxes, MovedMasks, MovedPoints, OutputAction, PermutedOutputs
from .per_class import PerClass
from .protocol import Augmentation
from .sampling import SAMPLERS
from .signals import SIGNAL_NAMES, Signal1d
from .space import POINT_KINDS, VOLUME_KINDS, Points3d, Volume3d
from .uniform import Limits, UniformWidths

FORMAT, VERSION = "covary.augment", 1
Record = dict[str, Any]
# A saturated rotation is π to rounding, which no parameter reaches; it is read as a width just below.
SATURATED = math.pi * (1 - 1e-6)
LARGEST = sys.float_info.max
LARGEST_DIM = 4096  # coordinates of a vector whose generators are read
KINDS: dict[type[UniformWidths], str] = {
    Affine2d: "affine2d",
    ColorJitter: "color_jitter",
    Points3d: "points3d",
    Rotation2d: "rotation2d",
    Signal1d: "signal1d",
    Volume3d: "volume3d",
}
ACTION_KINDS: dict[type[MovedPoints] | type[MovedBoxes], str] = {MovedPoints: "moved_points", MovedBoxes: "moved_boxes"}
ANGLES = ("rotation", "rotation_x", "rotation_y", "rotation_z", "hue")


def to_json(augment: Augmentation) -> Record:
    """Record of a distribution, ready for `json.dumps`: kind, names, widths, units, signs, and fields of its kind.

    An augmentation of another class is of kind "custom": its widths can be read, but it cannot be loaded.
    """
    record: Record = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "custom",
        "names": list(augment.names),
        "widths": augment.widths.tolist(),
        "units": list(getattr(augment, "units", [""] * len(augment.names))),
        "signs": list(getattr(augment, "signs", [""] * len(augment.names))),
    }
    if isinstance(augment, UniformWidths) and type(augment) in KINDS:
        padding: Record = {"padding": augment.padding} if isinstance(augment, Affine2d | Signal1d | Volume3d) else {}
        limits: Record = {"limits": {n: list(e) for n, e in augment.limits.items()}} if augment.limits else {}
        return record | {"kind": KINDS[type(augment)]} | padding | {"sampler": augment.sampler} | limits
    if isinstance(augment, LearnedGenerators):
        own = {"dim": augment.dim, "generators": augment.generators.tolist()}
        return record | {"kind": "learned_generators", "padding": augment.padding, "sampler": augment.sampler} | own
    if isinstance(augment, Correlated):
        return record | {"kind": "correlated", "mix": augment.mix.tolist(), "base": to_json(augment.base)}
    if isinstance(augment, FiniteGroup | Mirror3d):
        return record | {"kind": "finite_group" if isinstance(augment, FiniteGroup) else "mirror3d"}
    if isinstance(augment, PerClass):
        own = {
            "classes": list(augment.class_names),
            "parts": [to_json(cast(UniformWidths, part)) for part in augment.parts],
        }
        return record | {"kind": "per_class"} | own
    if isinstance(augment, Composed):
        return record | {"kind": "composed", "parts": [to_json(part) for part in augment.parts]}
    return record


def from_json(record: Any) -> Augmentation:
    """Distribution of a record of `to_json`, in the default dtype; raise `DataError` that names a wrong field."""
    try:
        return _made(record)
    except RecursionError as error:
        raise DataError("The record is nested too deeply. Pass a record that `to_json` made.") from error


def action_to_json(action: OutputAction) -> Record:
    """Record of an output action: kind and argument; one of another class is of kind "custom" and cannot be loaded."""
    if isinstance(action, PermutedOutputs):
        return {"kind": "permuted_outputs", "permutations": {n: list(p) for n, p in action.permutations.items()}}
    if isinstance(action, MovedPoints | MovedBoxes):
        return {"kind": ACTION_KINDS[type(action)], "coordinates": action.coordinates}
    return {"kind": "moved_masks", "padding": action.padding} if isinstance(action, MovedMasks) else {"kind": "custom"}


def action_from_json(record: Any) -> OutputAction:
    """Output action of a record of `action_to_json`; raise `DataError` that names a wrong field."""
    _require(isinstance(record, dict), "output action", "an object of fields", record)
    kind = _field(record, "kind")
    if kind == "custom":
        raise DataError(
            "The record has an output action of a class that covary does not know. Pass the averaged network with it, "
            "as in covary.load(folder, network)."
        )
    if kind == "permuted_outputs":
        permutations = _field(record, "permutations")
        good = isinstance(permutations, dict) and all(_are_whole(entries) for entries in permutations.values())
        _require(good, "permutations", "lists of whole numbers by name", permutations)
        return PermutedOutputs(permutations)
    if kind == "moved_masks":
        return MovedMasks(_choice(record, "padding", PADDINGS))
    makers = {name: make for make, name in ACTION_KINDS.items()}
    _require(isinstance(kind, str) and kind in makers, "kind", "that of an output action", kind)
    return makers[kind](_choice(record, "coordinates", ("pixels", "normalized")))


def save(augment: Augmentation, path: str | Path) -> None:
    """Write the names, widths and settings of a distribution to a JSON file; `load` reads it.

    Arguments:
        augment: The distribution; one of another class than those of covary is written, but cannot be loaded.
        path: The file, such as augment.json.

    Example:
        >>> import os, tempfile
        >>> from covary.augment import Affine2d, save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(Affine2d(("rotation",)), f"{folder}/augment.json")
        ...     os.listdir(folder)
        ['augment.json']
    """
    write_text(Path(path), json.dumps(to_json(augment), indent=2) + "\n")


def load(path: str | Path) -> Augmentation:
    """Distribution of a file that `save` wrote; every field is checked, and no code is executed.

    Arguments:
        path: The file.

    Example:
        >>> import tempfile
        >>> from covary.augment import Affine2d, load, save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(Affine2d(("rotation",), initial_width=0.3), f"{folder}/augment.json")
        ...     load(f"{folder}/augment.json")
        Affine2d(rotation=0.3, padding='zeros', sampler='sobol')
    """
    try:
        require_regular(Path(path))  # a pipe would block
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Expected a JSON file that `save` wrote, got '{path}' ({error}).") from error
    return from_json(record)


def _made(record: Any) -> Augmentation:
    _require(isinstance(record, dict), "record", "an object of fields", record)
    _require(_field(record, "format") == FORMAT, "format", f"'{FORMAT}'", record["format"])
    _require(_field(record, "version") == VERSION, "version", f"{VERSION}, the one of this release", record["version"])
    kind = _field(record, "kind")
    if kind == "custom":
        raise DataError(
            "Field 'kind' is 'custom': a class that covary does not know, of which only names, widths and units are "
            "saved. Build it with its own class and set its widths from the record."
        )
    _require(isinstance(kind, str) and kind in BUILDERS, "kind", f"one of {', '.join(BUILDERS)}", kind)
    try:
        augment = bounded(BUILDERS[kind](record), **_limits(record))
    except CovaryError as error:
        raise DataError(f"A record of kind '{kind}' cannot be loaded. {error}") from error
    _compare(record, to_json(augment))
    return augment


def _padded(make: Callable[..., UniformWidths], allowed: Collection[str], record: Record) -> UniformWidths:
    return make(
        _names(record, allowed),
        initial_width=_widths(record),
        padding=_choice(record, "padding", PADDINGS),
        sampler=_choice(record, "sampler", SAMPLERS),
    )


def _named(make: Callable[..., UniformWidths], allowed: Collection[str], record: Record) -> UniformWidths:
    return make(_names(record, allowed), initial_width=_widths(record), sampler=_choice(record, "sampler", SAMPLERS))


def _rotation(record: Record) -> Rotation2d:
    _names(record, ("rotation",))
    return Rotation2d(_widths(record)[0], sampler=_choice(record, "sampler", SAMPLERS))


def _correlated(record: Record) -> Correlated:
    base = _made(_field(record, "base"))
    if not isinstance(base, Affine2d):
        raise DataError(f"Expected field 'base' of kind 'affine2d', got {record['base']['kind']!r}.")
    rows = _field(record, "mix")
    size = len(base.names)
    square = isinstance(rows, list) and len(rows) == size and all(_are_numbers(row, size) for row in rows)
    _require(square, "mix", f"{size} rows of {size} finite numbers", rows)
    reached = [_reached_row(name, row) for name, row in zip(base.names, rows, strict=True)]
    return Correlated(base, torch.tensor(reached, dtype=torch.get_default_dtype()))


def _learned_generators(record: Record) -> LearnedGenerators:
    dim, matrices = _field(record, "dim"), _field(record, "generators")
    _require(dim is None or (type(dim) is int and 2 <= dim <= LARGEST_DIM), "dim", f"None or 2 to {LARGEST_DIM}", dim)
    num_rows, num_columns = (2, 3) if dim is None else (dim, dim)
    rows = [row for matrix in matrices for row in matrix] if _are_lists(matrices, num_rows) else []
    good = bool(rows) and all(_are_numbers(row, num_columns) for row in rows)
    _require(good, "generators", f"one or more matrices of {num_rows} rows of {num_columns} finite numbers", matrices)
    padding, sampler = _choice(record, "padding", PADDINGS), _choice(record, "sampler", SAMPLERS)
    augment = LearnedGenerators(len(matrices), dim, padding=padding, sampler=sampler)
    augment.generators.data = torch.tensor(matrices, dtype=torch.get_default_dtype())
    return augment


def _composed(record: Record) -> Composed:
    parts = _field(record, "parts")
    _require(isinstance(parts, list) and len(parts) > 0, "parts", "a list of one or more records", parts)
    return Composed(*[_made(part) for part in parts])


def _per_class(record: Record) -> PerClass:
    classes, records = _field(record, "classes"), _field(record, "parts")
    named = isinstance(classes, list) and len(classes) > 1 and all(isinstance(name, str) for name in classes)
    _require(named, "classes", "a list of two or more names", classes)
    good = isinstance(records, list) and len(records) == len(classes)
    _require(good, "parts", f"{len(classes)} records, one per class", records)
    parts = [_made(part) for part in records]
    alike = all(isinstance(part, UniformWidths) and to_json(part).keys() == records[0].keys() for part in parts)
    _require(alike and len({(type(p), p.names) for p in parts}) == 1, "parts", "alike but for their widths", records)
    augment = PerClass(parts[0], classes)
    augment.parts = nn.ModuleList(cast(list[nn.Module], parts))
    return augment


BUILDERS: dict[str, Callable[[Record], Augmentation]] = {
    "affine2d": partial(_padded, Affine2d, AFFINE_NAMES),
    "color_jitter": partial(_named, ColorJitter, COLOR_NAMES),
    "signal1d": partial(_padded, Signal1d, SIGNAL_NAMES),
    "points3d": partial(_named, Points3d, tuple(POINT_KINDS)),
    "volume3d": partial(_padded, Volume3d, tuple(VOLUME_KINDS)),
    "rotation2d": _rotation,
    "correlated": _correlated,
    "finite_group": lambda record: FiniteGroup(("identity", *_names(record, DIHEDRAL_NAMES[1:])), _widths(record)),
    "mirror3d": lambda record: Mirror3d(_names(record, MIRROR_NAMES), _widths(record)),
    "learned_generators": _learned_generators,
    "composed": _composed,
    "per_class": _per_class,
}


def _field(record: Record, name: str) -> Any:
    if name not in record:
        raise DataError(f"Field '{name}' is missing. Pass a record that `to_json` made.")
    return record[name]


def _names(record: Record, allowed: Collection[str]) -> list[str]:
    names = _field(record, "names")
    good = isinstance(names, list) and names and all(isinstance(n, str) and n in allowed for n in names)
    _require(bool(good) and len(set(names)) == len(names), "names", f"different ones of {', '.join(allowed)}", names)
    return list(names)


def _widths(record: Record) -> list[float]:
    widths, size = _field(record, "widths"), len(record["names"])
    good = _are_numbers(widths, size) and min(widths) >= 0
    _require(good, "widths", f"{size} finite numbers ≥ 0, one per name", widths)
    return [_reached(name, float(width)) for name, width in zip(record["names"], widths, strict=True)]


def _limits(record: Record) -> Limits:
    """The limits of a record, none in one without; `bounded` checks their order."""
    found, names = record.get("limits", {}), record.get("names", ())
    good = isinstance(found, dict) and all(name in names and _are_numbers(ends, 2) for name, ends in found.items())
    _require(good, "limits", "a pair of finite numbers by name", found)
    return {name: (float(low), float(high)) for name, (low, high) in found.items()}


def _reached(name: str, width: float) -> float:
    return SATURATED if name in ANGLES and math.isclose(width, math.pi, rel_tol=1e-6) else width


def _reached_row(name: str, row: list[float]) -> list[float]:
    length = math.hypot(*row)
    return [entry * (_reached(name, length) / length) for entry in row] if length > 0 else row


def _choice(record: Record, name: str, allowed: Collection[str]) -> str:
    value = _field(record, name)
    _require(isinstance(value, str) and value in allowed, name, f"one of {', '.join(allowed)}", value)
    return str(value)


def _are_lists(values: object, size: int) -> bool:
    return isinstance(values, list) and all(isinstance(entry, list) and len(entry) == size for entry in values)


def _are_whole(values: object) -> bool:
    return isinstance(values, list) and 0 < len(values) <= LARGEST_DIM and all(type(v) is int for v in values)


def _are_numbers(values: object, size: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == size
        # compared, not converted: JSON has integers that are larger than any float
        and all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= LARGEST for v in values)
    )


def _compare(record: Record, expected: Record) -> None:
    """Raise `DataError` if a field contradicts the distribution that the others make."""
    for name in record.keys() - expected.keys():
        raise DataError(f"Field '{name}' is unknown to kind '{record['kind']}'. Remove it.")
    for name, value in expected.items():
        if name == "widths":
            widths = _widths(record)
            same = all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(widths, value, strict=True))
            _require(same, name, f"{value}, which the other fields make", record[name])
        elif name not in {"mix", "base", "parts", "generators"}:  # read and checked by their builders
            _require(_field(record, name) == value, name, repr(value), record[name])


def _require(holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise DataError(f"Expected field '{name}' to be {expected}, got {got!r}. Pass a record that `to_json` made.")
