"""What `covary export` writes of a saved run: its augmentation as text, its network as a file or a folder."""

import json
from pathlib import Path

from torch import Size

from ..augment import Augmentation, to_text
from ..augment.export import from_json
from ..errors import DataError, StructureError
from ..records import read_run
from ..records.checksums import read_checked
from ..training import Run
from .predict import saved_run
from .resources import require_sample_memory

NUM_TRIED = 5  # data that an exported network is tried with
UNSETTLED = {
    "not learned yet": "not learned by this run, so as they were at its start",
    "still moving": "still moving when training ended; more epochs may change them",
}


def run_to_export(run: Path, network: str | None, trust_code: bool, num_samples: int | None = None) -> Run:
    """A saved run of images, whose network is to be exported.

    Arguments:
        run: The folder of the run.
        network: "package.module:function" that makes the network, for a run with a network of the user's own.
        trust_code: Whether the function that the record names may make it, where none is passed.
        num_samples: The augmentation samples of what is exported; None for those of the run.
    """
    record = read_run(run)
    if record.samples is None:
        raise StructureError("The record is without the shape of the inputs. Export it in Python, with an example.")
    channels, height, width = record.samples.shape[2:]
    found = saved_run(run, (channels, height, width), network, trust_code)
    require_sample_memory(found.network, Size((NUM_TRIED, channels, height, width)), num_samples)
    return found


def saved_augmentation(run: Path) -> Augmentation:
    """The learned augmentation of a saved run; its network is not needed."""
    folder = run if run.is_dir() else run.parent
    record = read_run(run)
    if not record.symmetries:
        raise StructureError(f"The run in '{folder}' has no augmentation that could be exported.")
    content = read_checked(folder, "augment.json", record.files)
    try:
        return from_json(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{folder / 'augment.json'}' is no augmentation of covary: {error}") from error


def exported_text(run: Path, target: str) -> str:
    """The ranges of a saved run as text for another library; comments say which had not settled."""
    header, text = to_text(saved_augmentation(run), target).split("\n", 1)
    symmetries = read_run(run).symmetries
    found = {state: [symmetry.name for symmetry in symmetries if symmetry.state == state] for state in UNSETTLED}
    comments = [f"# {', '.join(names)}: {UNSETTLED[state]}." for state, names in found.items() if names]
    return "\n".join([header, *comments, text])
