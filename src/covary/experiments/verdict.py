"""Verdicts on the symmetries of a saved run: `covary verdict`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .._lock import locked
from .._types import Progress
from ..data.dataset import Augmented
from ..data.transforms import flips_and_shifts
from ..errors import StructureError
from ..records import RunRecord, read_run, write_run
from ..training import Run, verdict
from .augmentations import augmentations_with
from .restore import Replacements, restored


def saved_verdict(
    folder: Path,
    given: Replacements,
    names: Sequence[str] | None = None,
    *,
    epochs: int | None = None,
    num_repeats: int = 2,
    progress: Progress | None = None,
) -> RunRecord:
    """Return the record of a saved run with a verdict on each symmetry, which its `run.json` then has too.

    Arguments:
        folder: The folder of a run of `discover`.
        given: What to use in place of what the record names.
        names: The symmetries; all by default.
        epochs: Epochs of each continuation; by default a quarter of those of the run, at least 4.
        num_repeats: Continuations of each kind.
        progress: Called with the current step and the fraction of the work that is done.
    """
    place = folder if folder.is_dir() else folder.parent
    with locked(place):
        record = read_run(folder)
        if record.config.get("augment") == "none":
            raise StructureError(f"The run in '{place}' learned no augmentation: it has no symmetry to decide on.")
        _check_names(record, names or ())
        config, task, model = restored(record, folder, given, same_data=True)
        train = task.dataset.train
        data = Augmented(train, flips_and_shifts) if config.train_augment == "flips+shifts" else train
        found = verdict(Run(model, record), data, names, epochs=epochs, num_repeats=num_repeats, progress=progress)
        kept = [earlier for earlier in record.verdicts if earlier.name not in {new.name for new in found}]
        order = [symmetry.name for symmetry in record.symmetries]
        updated = replace(record, verdicts=sorted([*kept, *found], key=lambda each: order.index(each.name)))
        write_run(updated, place / "run.json")
    return updated


def _check_names(record: RunRecord, names: Sequence[str]) -> None:
    """Raise `StructureError` for the name of a symmetry that another augmentation has."""
    learned = [symmetry.name for symmetry in record.symmetries]
    for name in names:
        if name not in learned and (having := augmentations_with(name)):
            raise StructureError(
                f"Expected symmetries among {', '.join(learned)}, got '{name}', which this run did not learn. To "
                f"decide on it, train with --augment {having[0]}."
            )
