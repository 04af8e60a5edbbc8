"""The augmentation of a saved run, in the words of another library: what `covary export` writes."""

import json
from pathlib import Path

from ..augment import Augmentation, to_text
from ..augment.exchange.text import TextTarget
from ..augment.export import from_json
from ..errors import StructureError
from ..records import read_run
from ..records.checksums import read_checked


def saved_augmentation(run: Path) -> Augmentation:
    """The learned augmentation of a saved run; its network is not needed."""
    folder = run if run.is_dir() else run.parent
    record = read_run(run)
    if not record.symmetries:
        raise StructureError(f"The run in '{folder}' has no augmentation that could be exported.")
    return from_json(json.loads(read_checked(folder, "augment.json", record.files)))


def exported_text(run: Path, target: TextTarget) -> str:
    """The ranges of a saved run as text for another library."""
    return to_text(saved_augmentation(run), target)
