"""`--track`: a run in TensorBoard, Weights & Biases or MLflow, in a folder beside the run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..config import ExperimentConfig
from ..records import RunRecord
from ..records.words import flat_settings
from .options import LESS_COMMON

if TYPE_CHECKING:
    from ..training import Callback

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
Track = Annotated[
    TrackerName | None,
    typer.Option(
        help="Also log to OUT/NAME, for tensorboard, wandb (offline) or mlflow (file store).",
        rich_help_panel=LESS_COMMON,
    ),
]
Callbacks = Callable[[str], "Sequence[Callback]"]


@contextmanager
def tracked(
    name: TrackerName | None, config: ExperimentConfig, out: Path
) -> Iterator[tuple[Callbacks, Callable[[RunRecord], None]]]:
    """The callbacks of each fit, by its name, and what logs the finished run; the tracker is closed at the end."""
    from ..distributed import is_first
    from .progress import progress_of

    if name is None or not is_first():
        yield progress_of, lambda record: None
        return
    from ..integrations.tracking import Tracking, log_run, require_tracker, tracker_of

    require_tracker(name)  # before any data are read
    opened: list[Any] = []

    def callbacks(title: str) -> "Sequence[Callback]":
        if title != "learn":  # baselines are not logged
            return progress_of(title)
        opened.append(tracker_of(name, out / name))
        return [*progress_of(title), Tracking(opened[0], flat_settings(config.as_dict()), close=False)]

    def log(record: RunRecord) -> None:
        for tracker in opened:  # none where a complete run was resumed
            log_run(tracker, record)

    try:
        yield callbacks, log
    finally:
        for tracker in opened:
            tracker.close()
