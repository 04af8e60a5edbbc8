"""Are the files of a run or a study those that were written? Every one against its checksum."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import DataError
from .checksums import page_state, read_sealed, sha256
from .files import EVIDENCE, MODEL

RUN, GEOMETRY, PAGE = "run.json", "geometry.json", "report.html"
CELLS = "cells"  # the folder of a study's cells
RECORDS = (RUN, "study.json", GEOMETRY)  # each has its own checksum, and those of other files
State = Literal["ok", "damaged", "missing", "of another run", "not in the record"]


@dataclass(frozen=True)
class FileCheck:
    """One file of a folder, compared with its checksum.

    Arguments:
        name: The file.
        state: "ok"; "damaged", where the content has another checksum; "missing"; "of another run", for a report, a
            geometry or a corrected evidence; or "not in the record", a file that covary did not write.

    Example:
        >>> from covary.records import FileCheck
        >>> FileCheck("model.safetensors", "ok").state
        'ok'
    """

    name: str
    state: State


def verify(folder: Path) -> list[FileCheck]:
    """Every file of a run or a study with the result of its checksum; raise `DataError` for a folder that has neither.

    `run.json`, `study.json`, `geometry.json`, `evidence.json`, `report.html` and the cells of a study state their own
    checksums, and the records those of the files beside them. Hidden files and other folders are left out.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from covary.records import RunRecord, verify, write_run
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_run(RunRecord("digits"), folder / "run.json")
        >>> verify(folder)
        [FileCheck(name='run.json', state='ok')]
    """
    present = [name for name in RECORDS if (folder / name).is_file()]
    if not present:
        raise DataError(f"Expected the folder of a run or a study, got '{folder}' without run.json and study.json.")
    contents = {name: _content(folder / name) for name in present}
    run, found = contents.get(RUN), dict[str, State]()
    for name, content in contents.items():
        if content is None:
            found[name] = "damaged"
            continue
        files = dict(content["files"])
        model = files.pop(MODEL, None) if name == GEOMETRY else None
        found[name] = "of another run" if model and run and run["files"].get(MODEL) != model else "ok"
        found |= {other: _state(folder, other, expected) for other, expected in files.items()}
    if (folder / PAGE).is_file():
        found[PAGE] = page_state((folder / PAGE).read_bytes(), run)
    if (folder / EVIDENCE).is_file():
        found[EVIDENCE] = _evidence_state(_sealed(folder / EVIDENCE), run)
    for name in cell_names(folder):  # those of a study that is being extended are not in its record yet
        found.setdefault(name, "damaged" if _sealed(folder / name) is None else "ok")
    others = [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    found |= {name: "not in the record" for name in sorted(others) if name not in found}
    return [FileCheck(name, state) for name, state in found.items()]


def cell_names(folder: Path) -> list[str]:
    """The files of the cells of a study, relative to its folder."""
    return [f"{CELLS}/{cell.name}" for cell in sorted((folder / CELLS).glob("[!.]*.json"))]


def _evidence_state(content: dict[str, Any] | None, run: dict[str, Any] | None) -> State:
    """Whether a corrected evidence is as it was written, and of the weights that the run has."""
    if content is None:
        return "damaged"
    return "ok" if run is None or run["files"].get(MODEL) == content.get("model") else "of another run"


def _content(path: Path) -> dict[str, Any] | None:
    """The content of a record; None if it is damaged."""
    content = _sealed(path)
    return content if content is not None and isinstance(content.get("files"), dict) else None


def _sealed(path: Path) -> dict[str, Any] | None:
    """The content of a file that states its own checksum; None if it is damaged."""
    try:
        return read_sealed(path)
    except DataError:
        return None


def _state(folder: Path, name: str, expected: str) -> State:
    if Path(name).name not in (name, name.removeprefix(f"{CELLS}/")):  # a record has no say about files elsewhere
        return "damaged"
    if not (folder / name).is_file():
        return "missing"
    return "ok" if sha256((folder / name).read_bytes()) == expected else "damaged"
