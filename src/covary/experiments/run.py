"""Which transforms do the labels ignore, and what should each layer be? `covary discover` and `covary layers`."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from .._files import write_text
from .._types import Resampling
from ..batches import as_batches
from ..config import ExperimentConfig
from ..curvature.registry import Curvature, CurvatureName
from ..data import Dataset
from ..distributed import own_part
from ..errors import DataError, StructureError
from ..layer_summary import prune, relaxed_layers
from ..layer_summary.prune import save_pruned
from ..models import Model
from ..priors import mean_precisions
from ..records import Pictures, Pruning, RunRecord, read_run
from ..records.words import flat_settings
from ..training import Callback, Run, is_first, measure
from ..training.checkpoint import checkpoint_files
from ..training.schedule import EVALUATE, seed_for
from ..training.steps import evidence_record, hyper_network
from .build import Session, Task, check_baselines, learn, model, prepared, run_baseline, silent
from .resources import require_memory

CHECKPOINTS, SETTINGS = "checkpoints", "settings.json"


def discover(
    config: ExperimentConfig,
    out: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 5,
    callbacks: Callable[[str], Sequence[Callback]] = silent,
) -> RunRecord:
    """Return the record of a run; the folder `out` then has `run.json`, the network and the augmentation.

    Where the settings ask for a pruning, the pruned network is there too, as `pruned.safetensors`.

    Arguments:
        config: The settings.
        out: The folder. A complete run there is replaced; an unfinished one is refused unless it is resumed.
        resume: Whether to go on with the run there. A complete one is returned as it is.
        checkpoint_every: Epochs from one checkpoint to the next.
        callbacks: From the name of a fit, "learn" or a baseline, to its callbacks.
    """
    folder = out / CHECKPOINTS
    unfinished = any(checkpoint_files(part) for part in folder.glob("*"))
    if unfinished and not resume:
        raise StructureError(f"{out} holds an unfinished run. Pass --resume to go on with it, or another folder.")
    if resume and not unfinished and (complete := _complete(config, out)) is not None:
        return complete
    task = prepared(config)
    require_memory(config, task)
    check_baselines(config, task)
    _check_prune(config, task)
    _keep_settings(config, folder, unfinished)
    session = Session(folder, resume, checkpoint_every, callbacks)
    learned = learn(config, task, session)
    record = replace(
        learned.record,
        title=f"{task.dataset.name}: {len(task.dataset.x_train):,} images, {config.network}",
        config=learned.record.config | config.as_dict() | {"num_images": len(task.dataset.x_train)},
        true_widths=task.true_widths,
        class_names=list(task.dataset.class_names),
        samples=_named(learned.record.samples, task.dataset),
        notes=[*learned.record.notes, *_standardization(task)],
    )
    if config.prune is not None:
        record = replace(record, pruned=_pruned(config.prune, learned, config, task, out))
    if config.baselines and is_first():
        replace(learned, record=replace(record, complete=False)).save(out)
    baselines = [run_baseline(name, config, task, session) for name in config.baselines]
    record = replace(record, baselines=baselines)
    if is_first():
        replace(learned, record=record).save(out)
        _remove(folder)
    return record


def _check_prune(config: ExperimentConfig, task: Task) -> None:
    if config.prune is not None and not relaxed_layers(model(config, task)):
        raise StructureError(
            f"prune removes paths of relaxed layers; the network '{config.network}' has none. Drop the setting, or "
            "name one such as relaxed:f-fc+conv:4."
        )


def _pruned(threshold: float, learned: Run, config: ExperimentConfig, task: Task, out: Path) -> Pruning:
    """The record of pruning; the pruned network is written to the folder."""
    seed, fit = seed_for(config.fit.seed, EVALUATE), config.fit
    simple = prune(
        Model(hyper_network(learned.network, fit), learned.likelihood, learned.prior),
        own_part(as_batches(task.dataset.train, fit.weights.batch_size)),
        threshold,
        Curvature(cast(CurvatureName, fit.curvature), fit.evaluation.probes),
        seed=seed,
    )
    if is_first():
        save_pruned(simple.model.network, out)
    tested = None
    if len(task.dataset.x_test):  # with as many samples as the test of the whole network
        whole = simple.model.network
        network = whole.with_samples(config.num_samples) if isinstance(whole, Resampling) else whole
        tested = measure(network, learned.likelihood, task.dataset.test, fit.seed)
    return Pruning(
        threshold=threshold,
        removed=list(simple.removed),
        replaced=list(simple.replaced),
        num_params=simple.num_params,
        num_params_before=simple.num_params_before,
        evidence=evidence_record(simple.evidence, fit.curvature, fit.evaluation.probes),
        evidence_before=evidence_record(simple.evidence_before, fit.curvature, fit.evaluation.probes),
        max_change=simple.max_change,
        mean_change=simple.mean_change,
        test=tested,
        precisions=mean_precisions(simple.model.prior),
    )


def _standardization(task: Task) -> list[str]:
    """What a reader must know of the images that the network saw."""
    if task.moments is None:
        return []
    means, deviations = (", ".join(f"{value:.4g}" for value in part.tolist()) for part in task.moments)
    return [f"The network takes the training images' mean ({means}) out and divides by their deviation ({deviations})."]


def _complete(config: ExperimentConfig, out: Path) -> RunRecord | None:
    """The complete run of a folder, made with the same settings; None where there is none."""
    if not (out / "run.json").exists():
        return None
    run = read_run(out)
    if not run.complete:
        return None
    _compare(run.config, config, out)
    return run


def _keep_settings(config: ExperimentConfig, folder: Path, unfinished: bool) -> None:
    """The settings beside the checkpoints that are made with them: a run goes on with no others."""
    path = folder / SETTINGS
    if unfinished:
        try:
            written = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise DataError(f"{path} cannot be read ({error}). Start anew in another folder.") from error
        _compare(written, config, folder.parent)
    elif is_first():
        write_text(path, json.dumps(config.as_dict()) + "\n")


def _compare(written: Mapping[str, Any], config: ExperimentConfig, out: Path) -> None:
    written = flat_settings(written)
    for name, value in flat_settings(json.loads(json.dumps(config.as_dict()))).items():
        if name not in written:
            raise StructureError(
                f"{out} holds a run of an earlier covary, which knew no {name}. Start anew in another folder."
            )
        if name != "data_dir" and written[name] != value:
            raise StructureError(
                f"{out} holds a run with {name} = {written[name]!r:.60}, got {value!r:.60}. Resume with the "
                "same settings, or name another folder."
            )


def _remove(folder: Path) -> None:
    """Remove the checkpoints of a complete run."""
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
