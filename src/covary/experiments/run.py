"""Which transforms do the labels ignore, and what should each layer be? `covary discover` and `covary layers`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from .._files import remove_folder
from .._types import Resampling
from ..batches import as_batches
from ..config import ExperimentConfig
from ..data import Dataset
from ..distributed import is_first, on_first, own_part, sole_writer
from ..errors import StructureError
from ..layer_summary import prune, relaxed_layers
from ..layer_summary.prune import save_pruned
from ..models import Model
from ..priors import mean_precisions
from ..records import Pictures, Pruning, RunRecord
from ..training import Callback, Run, measure
from ..training.ascent import evaluated_curvature, evaluated_network, evidence_record
from ..training.schedule import EVALUATE, filled_in, seed_for
from . import begun
from .baselines import run_baselines
from .build import Session, Task, check_baselines, learn, model, prepared, silent
from .resources import require_memory


def discover(
    config: ExperimentConfig,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: int = 5,
    callbacks: Callable[[str], Sequence[Callback]] = silent,
) -> RunRecord:
    """Return the record of a run; the folder `out` then has `run.json`, the network and the augmentation.

    Where the settings ask for a pruning, the pruned network is there too, as `pruned.safetensors`. The folder is locked
    meanwhile: another process that would write to it is refused.

    Arguments:
        config: The settings.
        out: The folder. A run there, complete or not, is refused unless it is resumed or replaced.
        resume: Whether to continue the run there. A complete one on the same data is returned as it is.
        overwrite: Whether to replace the run there.
        checkpoint_every: Epochs from one checkpoint to the next.
        callbacks: From the name of a fit, "learn" or a baseline, to its callbacks.
    """
    if resume and overwrite:
        raise StructureError("--resume continues a run and --overwrite replaces it. Pass one of them.")
    with sole_writer(out):
        earlier = on_first(lambda: begun.earlier_run(out, resume, overwrite))
        task = _checked(config)
        start = begun.Begun(begun.plain(config.as_dict()), begun.checksum_of(task.dataset))
        if earlier.complete is not None:
            begun.compare(
                begun.Begun(earlier.complete.config, earlier.complete.config.get(begun.DATA_SHA256)), start, out
            )
            return earlier.complete
        folder = out / begun.CHECKPOINTS
        if earlier.begun is not None:
            begun.compare(earlier.begun, start, out)
        try:
            if earlier.begun is None and is_first():
                begun.begin(folder, start)
            return _trained(config, task, Session(folder, resume, checkpoint_every, callbacks), start)
        except Exception:
            if is_first() and not begun.has_checkpoints(folder):
                remove_folder(folder)  # a run that could not start leaves nothing to resume
            raise


def _checked(config: ExperimentConfig) -> Task:
    """The data, once everything that can be refused before the first run has been checked."""
    task = prepared(config)
    require_memory(config, task)
    check_baselines(config, task)
    _check_prune(config, task)
    return task


def _trained(config: ExperimentConfig, task: Task, session: Session, start: begun.Begun) -> RunRecord:
    """Train the network and its baselines, and write the run into the folder above the checkpoints."""
    assert session.folder is not None, "a run has a folder"
    out = session.folder.parent
    learned = learn(config, task, session)
    own = {"num_images": len(task.dataset.x_train), begun.DATA_SHA256: start.data}
    record = replace(
        learned.record,
        title=f"{task.dataset.name}: {len(task.dataset.x_train):,} {_kind(task)}, {config.network}",
        config=learned.record.config | config.as_dict() | own,
        true_widths=task.true_widths,
        class_names=list(task.dataset.class_names),
        feature_names=list(task.dataset.feature_names),
        samples=_named(learned.record.samples, task.dataset),
        notes=[*learned.record.notes, *task.dataset.notes, *_standardization(task)],
    )
    if config.prune is not None:
        record = replace(record, pruned=_pruned(config.prune, learned, config, task, out))
    if config.baselines and is_first():
        replace(learned, record=replace(record, complete=False)).save(out)
    record = replace(record, baselines=run_baselines(config, task, session, record.seconds))
    if is_first():
        replace(learned, record=record).save(out)
        remove_folder(session.folder)
    return record


def _check_prune(config: ExperimentConfig, task: Task) -> None:
    if config.prune is not None and not relaxed_layers(model(config, task)):
        raise StructureError(
            f"prune removes paths of relaxed layers; the network '{config.network}' has none. Drop the setting, or "
            "name one such as relaxed:f-fc+conv:4."
        )


def _pruned(threshold: float, learned: Run, config: ExperimentConfig, task: Task, out: Path) -> Pruning:
    """The record of pruning; the pruned network is written to the folder."""
    seed, fit = seed_for(config.fit.seed, EVALUATE), filled_in(config.fit, len(task.dataset.x_train))
    simple = prune(
        Model(evaluated_network(learned.network, fit), learned.likelihood, learned.prior),
        own_part(as_batches(task.dataset.train, fit.weights.batch_size)),
        evaluated_curvature(fit),
        threshold=threshold,
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


def _kind(task: Task) -> str:
    """What the data are, in one word."""
    return "images" if task.dataset.x_train.ndim == 4 else "rows" if task.dataset.x_train.ndim == 2 else "data"


def _standardization(task: Task) -> list[str]:
    """What a reader must know of the data that the network saw, and of the targets that it predicts."""
    notes, dataset = [], task.dataset
    if task.moments is not None:
        names = dataset.feature_names
        what = "training images' mean" if dataset.x_train.ndim == 4 else "mean of each column or channel"
        notes.append(
            f"The network takes the {what} ({_values(task.moments[0], names)}) out and divides by "
            f"{'their' if dataset.x_train.ndim == 4 else 'its'} deviation ({_values(task.moments[1], names)})."
        )
    if task.scales is not None:
        means, deviations = (_values(part, dataset.target_names) for part in task.scales)
        notes.append(
            f"The network predicts standardized targets, which are multiplied by the deviation ({deviations}) of the "
            f"training targets and shifted by their mean ({means}); noise and errors are in the targets' own units."
        )
    return notes


def _values(numbers: Tensor, names: Sequence[str]) -> str:
    """Numbers, with their names where there are any."""
    values = [f"{value:.4g}" for value in numbers.tolist()]
    return (
        ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True)) if names else ", ".join(values)
    )


def _named(samples: Pictures | None, dataset: Dataset) -> Pictures | None:
    """The pictures with the names of their classes."""
    if samples is None or dataset.is_regression:
        return samples
    return replace(samples, labels=[dataset.class_names[int(label)] for label in samples.labels])
