"""A run to and from one JSON file, every field checked."""

import base64
import binascii
import dataclasses
import json
import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._files import require_regular, write_text
from ..errors import DataError
from .checksums import FIELD, check_seal, read_sealed, sealed
from .run import Evidence, Pictures, RunRecord
from .study import Study
from .symmetry import Symmetry

VERSION = 3
EVIDENCE = "evidence.json"  # the corrected evidence of a run, beside its record
MODEL = "model.safetensors"  # of which a corrected evidence and a geometry are
UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")  # control characters but for tabs and line ends
# fields of a run that a file may lack
OPTIONAL = (
    *("complete", "notes", "pruned", "model", "timings", "verdicts"),
    *("target_std", "predicted_noise", "input_shape", "feature_names"),
)
LARGEST = sys.float_info.max
# what a report divides by, and amounts
LEAST = {(Evidence, "num_data"): 1, (Symmetry, "width"): 0, (Symmetry, "error"): 0}
DEEPEST = 16  # of lists and mappings inside one another; a setting needs a few


def write_run(run: RunRecord, path: Path) -> None:
    """Write a run to a JSON file, atomically.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from covary.records import RunRecord, write_run
        >>> path = Path(tempfile.mkdtemp()) / "run.json"
        >>> write_run(RunRecord("digits"), path)
        >>> path.exists()
        True
    """
    _write({"format": "covary-run", "version": VERSION} | dataclasses.asdict(run), path)


def write_study(study: Study, path: Path) -> None:
    """Write a study to a JSON file, atomically.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from covary.records import Study, write_study
        >>> study = Study("toy", "smoke", "five models", {}, {}, [], {}, [], 1.0)
        >>> path = Path(tempfile.mkdtemp()) / "study.json"
        >>> write_study(study, path)
        >>> path.exists()
        True
    """
    _write({"format": "covary-study", "version": VERSION} | dataclasses.asdict(study), path)


def _write(content: dict[str, Any], path: Path) -> None:
    try:
        plain = json.loads(json.dumps(content, allow_nan=False))  # as it will be read, for the checksum
    except (TypeError, ValueError) as error:
        raise DataError(f"A record cannot be written to {path} with such a value: {error}.") from error
    write_text(path, json.dumps(sealed(plain), indent=1) + "\n")


def read_run(path: str | Path) -> RunRecord:
    """The run in a file, or in the file `run.json` of a folder; its checksum and every field are checked.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from covary.records import RunRecord, read_run, write_run
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_run(RunRecord("digits"), folder / "run.json")
        >>> read_run(folder).title
        'digits'
    """
    path = Path(path)
    file = path / "run.json" if path.is_dir() else path
    try:
        require_regular(file)
        content = json.loads(file.read_text(encoding="utf-8"), parse_constant=_finite, parse_float=_finite)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}. Name the folder of a saved run.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{file} is damaged, or no record of a run ({error}). Restore it, or name the folder of a saved run."
        ) from error
    if not isinstance(content, dict) or content.get("format") != "covary-run":
        raise DataError(f"{file} is no record of a run: expected the field format to be 'covary-run'.")
    if content.get("version") != VERSION:
        raise DataError(f"{file} has format version {content.get('version')!r}; this covary reads {VERSION}.")
    check_seal(content, file)
    values = {name: value for name, value in content.items() if name not in ("format", "version", FIELD)}
    _check_plain(values, str(file), DEEPEST)
    for field in dataclasses.fields(RunRecord):
        if field.name not in values and field.name not in OPTIONAL:
            raise DataError(f"{file} lacks the field '{field.name}'. Save the run again.")
    run: RunRecord = from_plain(values, RunRecord, str(file))
    _check_pictures(run.samples, file)
    _check_correlation(run, file)
    for symmetry in run.symmetries:
        if symmetry.interval is not None and len(symmetry.interval) != 2:
            raise DataError(f"{file} needs two ends of the interval of '{symmetry.name:.60}'. Save the run anew.")
    return run


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {number:.20} is not finite")
    return value


def _check_plain(value: Any, where: str, depth: int) -> None:
    """Raise `DataError` for text that no file can hold, and for nesting that no setting needs."""
    if depth == 0 and isinstance(value, list | dict):
        raise DataError(f"{where:.120} is nested too deeply: expected at most {DEEPEST} levels. Save the run anew.")
    if isinstance(value, str) and UNWRITABLE.search(value):
        raise DataError(f"{where:.120} holds a control character: expected plain text. Save the run anew.")
    if isinstance(value, list):
        for number, entry in enumerate(value):
            _check_plain(entry, f"{where}[{number}]", depth - 1)
    if isinstance(value, dict):
        for name, entry in value.items():
            if not name.isprintable():
                raise DataError(f"{where:.120} has the name {name!a:.60}: expected plain text. Save the run anew.")
            _check_plain(entry, f"{where}.{name}", depth - 1)


def from_plain(value: Any, kind: Any, where: str) -> Any:
    """The value as the annotated type, or an error that names its place.

    Example:
        >>> from covary.records import from_plain
        >>> from_plain({"a": 1}, dict[str, float], "numbers")
        {'a': 1.0}
    """
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        inner = next(part for part in parts if part is not type(None))
        return None if value is None else from_plain(value, inner, where)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return _of_record(value, kind, where)
    if origin is list and isinstance(value, list):
        return [from_plain(entry, parts[0], f"{where}[{number}]") for number, entry in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {str(name): from_plain(entry, parts[1], f"{where}.{name}") for name, entry in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return float(value)
    if isinstance(kind, type) and origin is None and type(value) is kind:
        return value
    raise DataError(f"{where} must be {getattr(kind, '__name__', kind)}, got {value!r:.60}. Save the run anew.")


def _of_record(value: Mapping[str, Any], kind: Any, where: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    annotations = typing.get_type_hints(kind)
    for name in value:
        if name not in fields:
            raise DataError(f"{where} has an unknown field {name!r:.60}. It is of another covary, or made by hand.")
    for name, f in fields.items():
        if name not in value and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise DataError(f"{where} lacks the field '{name}'. Save the run anew.")
    values = {name: from_plain(entry, annotations[name], f"{where}.{name}") for name, entry in value.items()}
    for name, entry in values.items():
        if (kind, name) in LEAST and entry is not None and entry < LEAST[kind, name]:
            raise DataError(f"{where}.{name} must be at least {LEAST[kind, name]}, got {entry!r}. Save the run anew.")
    return kind(**values)


def _check_pictures(pictures: Pictures | None, file: Path) -> None:
    if pictures is None:
        return
    try:
        found = len(base64.b64decode(pictures.pixels, validate=True))
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{file}.samples.pixels is no base64 ({error}). Save the run anew.") from error
    shape = pictures.shape
    if len(shape) != 5 or min(shape) < 1 or shape[2] not in (1, 3) or found != math.prod(shape):
        raise DataError(f"{file}.samples needs bytes of gray or color pixels in the shape {shape}, got {found}.")
    if len(pictures.labels) != shape[0] or any(len(matrix) != 9 for matrix in pictures.matrices):
        raise DataError(f"{file}.samples needs a label per image and nine numbers per matrix. Save the run anew.")


def _check_correlation(run: RunRecord, file: Path) -> None:
    size = len(run.symmetries)
    if run.correlation is not None and [len(row) for row in run.correlation] != [size] * size:
        raise DataError(
            f"{file}.correlation needs a row and a column for each of {size} symmetries. Save the run anew."
        )


def write_evidence(evidence: Evidence, run: RunRecord, folder: Path) -> None:
    """Write the corrected evidence of a run into its folder, with the checksum of the weights that it is of."""
    content = {"format": "covary-evidence", "model": run.files.get(MODEL), "evidence": dataclasses.asdict(evidence)}
    write_text(folder / EVIDENCE, json.dumps(sealed(content), indent=1) + "\n")


def with_corrected(run: RunRecord, folder: Path) -> RunRecord:
    """The run with the corrected evidence that its folder has; as it is if there is none of these weights."""
    path = folder / EVIDENCE
    if not path.exists():
        return run
    try:
        content = read_sealed(path)
    except DataError as error:
        raise DataError(f"{error} Remove it, or compute it again by `covary compare --correction`.") from error
    if content.get("model") != run.files.get(MODEL):
        return run
    return dataclasses.replace(run, evidence=from_plain(content.get("evidence"), Evidence, "evidence"))
