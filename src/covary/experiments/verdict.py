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
from ..training.storage import load_model
from .begun import require_same_data
from .build import model, prepared
from .geometry import Replacements, saved_config
from .resources import require_weights


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
        config = saved_config(record, folder, given)
        if config.augment == "none":
            raise StructureError(f"The run in '{place}' learned no augmentation: it has no symmetry to decide on.")
        task = prepared(config)
        require_same_data(record, task.dataset, place)
        require_weights(config, task)
        restored = Run(load_model(record, place, model(config, task)), record)
        train = task.dataset.train
        data = Augmented(train, flips_and_shifts) if config.train_augment == "flips+shifts" else train
        found = verdict(restored, data, names, epochs=epochs, num_repeats=num_repeats, progress=progress)
        kept = [earlier for earlier in record.verdicts if earlier.name not in {new.name for new in found}]
        order = [symmetry.name for symmetry in record.symmetries]
        judged = replace(record, verdicts=sorted([*kept, *found], key=lambda each: order.index(each.name)))
        write_run(judged, place / "run.json")
    return judged
