"""Which transforms do the labels of a data set ignore? The main job: `covary discover`."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._errors import DataError, StructureError
from ..config import DiscoverConfig
from ..data import Dataset
from ..records import Pictures, Run, read_run, write_text
from ..training import checkpoints, is_first
from .invariance import Session, check_baselines, learn, prepared, run_baseline
from .needs import require_memory

__all__ = ["discover"]

CHECKPOINTS, SETTINGS = "checkpoints", "settings.json"


def discover(config: DiscoverConfig, out: Path, *, resume: bool = False, checkpoint_every: int = 5) -> Run:
    """The record of a run, whose folder `out` then holds `run.json`, the network, the augmentation and the report.

    Arguments:
        config: The settings.
        out: The folder. A complete run there is replaced; an unfinished one is refused unless it is resumed.
        resume: Whether to go on with the run there. A complete one is returned as it is.
        checkpoint_every: How many epochs lie between two checkpoints.
    """
    folder = out / CHECKPOINTS
    unfinished = any(checkpoints(part) for part in folder.glob("*"))
    if unfinished and not resume:
        raise StructureError(f"{out} holds an unfinished run. Pass --resume to go on with it, or another folder.")
    if resume and not unfinished and (complete := _complete(config, out)) is not None:
        return complete
    task = prepared(config)
    require_memory(config, task)
    check_baselines(config, task)
    _keep_settings(config, folder, unfinished)
    session = Session(folder, resume, checkpoint_every)
    learned = learn(config, task, session)
    record = replace(
        learned.record,
        title=f"{task.dataset.name}: {len(task.dataset.x_train):,} images, {config.network}",
        config=config.as_dict() | {"num_train": len(task.dataset.x_train)},
        true_widths=task.true_widths,
        samples=_named(learned.record.samples, task.dataset),
    )
    if config.baselines and is_first():
        replace(learned, record=replace(record, complete=False)).save(out)
    baselines = [run_baseline(name, config, task, session) for name in config.baselines]
    record = replace(record, baselines=baselines)
    if is_first():
        replace(learned, record=record).save(out)
        _remove(folder)
    return record


def _complete(config: DiscoverConfig, out: Path) -> Run | None:
    """The complete run of a folder, made with the same settings; None where there is none."""
    if not (out / "run.json").exists():
        return None
    run = read_run(out)
    if not run.complete:
        return None
    _compare(run.config, config, out)
    return run


def _keep_settings(config: DiscoverConfig, folder: Path, unfinished: bool) -> None:
    """The settings beside the checkpoints that are made with them: a run goes on with no others."""
    path = folder / SETTINGS
    if unfinished:
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error}). Start anew in another folder.") from error
        _compare(written, config, folder.parent)
    elif is_first():
        write_text(path, json.dumps(config.as_dict()) + "\n")


def _compare(written: Mapping[str, Any], config: DiscoverConfig, out: Path) -> None:
    for name, value in json.loads(json.dumps(config.as_dict())).items():
        if name != "data_dir" and written.get(name) != value:
            raise StructureError(
                f"{out} holds a run with {name} = {written.get(name)!r:.60}; {value!r:.60} came. Resume with the "
                "same settings, or name another folder."
            )


def _remove(folder: Path) -> None:
    """Nothing of the checkpoints: the run they belong to is complete."""
    # moved away in one step: a kill in between must not leave half a set of checkpoints that looks like a run
    done = folder.with_name(f".{folder.name}-done")
    shutil.rmtree(done, ignore_errors=True)
    folder.replace(done)
    shutil.rmtree(done)


def _named(samples: Pictures | None, dataset: Dataset) -> Pictures | None:
    """The pictures with the names of their classes."""
    if samples is None:
        return None
    return replace(samples, labels=[dataset.class_names[int(label)] for label in samples.labels])
