"""The baselines of a run: the same network trained in other ways, for as many epochs and, if asked, as many seconds."""

import json
from dataclasses import replace
from pathlib import Path

from .._files import write_text
from .._text import clipped
from ..config import ExperimentConfig
from ..distributed import on_first
from ..errors import DataError
from ..networks import Averaged
from ..records import Baseline
from ..records.checksums import read_sealed, sealed
from ..training import Run, measure
from .build import ALONE, AUTOMATIC, Session, Task, baseline_run

EQUAL_TIME = "equal time"


def run_baselines(
    config: ExperimentConfig, task: Task, session: Session = ALONE, seconds: float = 0.0
) -> list[Baseline]:
    """The rows of all baselines, in their order; with `equal="time"` each is followed by one of as many seconds.

    A network that was trained with random operations has two rows: averaged over as many test samples as the run, and
    tested on each image as it is, as in the papers.

    Arguments:
        session: Where checkpoints are.
        seconds: How long the run itself took.
    """
    found = []
    for name in config.baselines:
        baseline, run = baseline_run(name, name, config, task, session)
        found += _rows(name, baseline, run, config, task)
        epochs = _epochs(baseline, seconds, session) if config.equal == "time" else config.fit.epochs
        if epochs != config.fit.epochs:
            longer, title = config.replace(epochs=epochs), f"{name}, {EQUAL_TIME}"
            found += _rows(name, *baseline_run(name, title, longer, task, session), longer, task)
    return found


def _rows(name: str, baseline: Baseline, run: Run, config: ExperimentConfig, task: Task) -> list[Baseline]:
    """The row of a baseline; of one by random operations with as many test samples, and one with the image itself."""
    if name not in AUTOMATIC or baseline.test is None:
        return [baseline]
    averaged = Averaged(run.network, AUTOMATIC[name], config.num_samples)
    test = measure(averaged, run.likelihood, task.dataset.test, config.fit.seed)
    return [replace(baseline, test=test), replace(baseline, name=f"{baseline.name}, 1 sample")]


def _epochs(baseline: Baseline, seconds: float, session: Session) -> int:
    """The epochs that take as long as the run took; the number of an interrupted run is kept for its continuation."""
    known = baseline.epochs or 1
    epochs = max(round(known * seconds / max(baseline.seconds, 1e-9)), 1)
    if session.folder is None:
        return epochs
    note = session.folder / f"{baseline.name}-epochs.json"
    return on_first(lambda: _noted(note, epochs, session.resume))


def _noted(note: Path, epochs: int, resume: bool) -> int:
    """The number that an interrupted run has noted, or this one, noted now."""
    if resume and note.exists():
        known = read_sealed(note).get("epochs")
        if not isinstance(known, int) or known < 1:
            raise DataError(
                f"Expected a number of epochs in '{note}', got {clipped(known)}. Pass --overwrite to start anew."
            )
        return known
    write_text(note, json.dumps(sealed({"epochs": epochs})) + "\n")
    return epochs
