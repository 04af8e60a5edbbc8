"""What `covary export` writes of a saved run: its augmentation as text, its network as a file or a folder."""

import json
from pathlib import Path

from ..augment import Augmentation, to_text
from ..augment.export import from_json
from ..errors import StructureError
from ..records import read_run
from ..records.checksums import read_checked
from ..training import Run
from .predict import saved_run


def run_to_export(run: Path, network: str | None, trust_code: bool) -> Run:
    """A saved run of images, whose network is to be exported.

    Arguments:
        run: The folder of the run.
        network: "package.module:function" that makes the network, for a run with a network of the user's own.
        trust_code: Whether the function that the record names may make it, where none is passed.
    """
    record = read_run(run)
    if record.samples is None:
        raise StructureError("The record is without the shape of the inputs. Export it in Python, with an example.")
    channels, height, width = record.samples.shape[2:]
    return saved_run(run, (channels, height, width), network, trust_code)


def saved_augmentation(run: Path) -> Augmentation:
    """The learned augmentation of a saved run; its network is not needed."""
    folder = run if run.is_dir() else run.parent
    record = read_run(run)
    if not record.symmetries:
        raise StructureError(f"The run in '{folder}' has no augmentation that could be exported.")
    return from_json(json.loads(read_checked(folder, "augment.json", record.files)))


def exported_text(run: Path, target: str) -> str:
    """The ranges of a saved run as text for another library."""
    return to_text(saved_augmentation(run), target)
