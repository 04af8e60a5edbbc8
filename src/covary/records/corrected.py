"""The corrected evidence of a run, in a file beside its record."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from .._files import write_text
from ..errors import DataError
from .checksums import read_sealed, sealed
from .files import from_plain
from .run import Evidence, RunRecord

FILE = "evidence.json"
AGAIN = "Remove it, or compute it again by `covary compare --correction`."
MODEL = "model.safetensors"  # of which a corrected evidence and a geometry are


def write_evidence(evidence: Evidence, run: RunRecord, folder: Path) -> None:
    """Write the corrected evidence of a run into its folder, with the checksum of the weights that it is of."""
    content = {"format": "covary-evidence", "model": run.files.get(MODEL), "evidence": asdict(evidence)}
    write_text(folder / FILE, json.dumps(sealed(content), indent=1) + "\n")


def with_corrected(run: RunRecord, folder: Path) -> RunRecord:
    """The run with the corrected evidence that its folder has; as it is if there is none of these weights."""
    path = folder / FILE
    if not path.exists():
        return run
    try:
        content = read_sealed(path)
    except DataError as error:
        raise DataError(f"{error} {AGAIN}") from error
    if content.get("model") != run.files.get(MODEL):
        return run
    return replace(run, evidence=from_plain(content.get("evidence"), Evidence, "evidence"))
