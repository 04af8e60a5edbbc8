"""The alternation of weights and hyperparameters: `fit` trains a network together with what it should ignore."""

import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..batches import Batches, Contents, Data, IndexedBatch, as_batches, read_through
from ..config import FitConfig
from ..curvature.passes import check_model
from ..curvature.registry import Curvature, CurvatureName, check_curvature
from ..distributed import all_sum_number, is_first, own, own_part, place, require_alike
from ..errors import Interrupted, StructureError
from ..hypergrad.partition import check_per_weight
from ..likelihoods import Categorical, Likelihood
from ..noise import Stream, permutation
from ..priors import Prior
from ..records import Epoch
from ..records.words import flat_settings
from ..report import FitProgress
from .checkpoint import checkpoints, load_newest, write_checkpoint
from .learning_rates import follow, set_rates, start_within
from .run import Run, described, epoch_record
from .schedule import WEIGHTS, is_hyper_epoch, is_judged_epoch, seed_for, warmth
from .state import Best, FitState, initial_state, restore, snapshot
from .steps import hyper_step, judge, weight_step

Callback = Callable[[Epoch], None]
TrainTransform = Callable[[Tensor, Tensor, int], Tensor]  # (x, index, seed) -> x, for weight steps alone


@dataclass(frozen=True)
class Job:
    """What stays the same during a fit: data, settings, and where checkpoints go."""

    batches: Batches
    num_data: int
    config: FitConfig
    train_transform: TrainTransform | None
    folder: Path | None
    checkpoint_every: int
    fingerprint: dict[str, Any]
    started: float = field(default_factory=time.monotonic)


def fit(
    network: nn.Module,
    train: Data,
    *,
    likelihood: Likelihood | None = None,
    prior: Prior | None = None,
    epochs: int | None = None,
    config: FitConfig | None = None,
    test: Data | None = None,
    train_transform: TrainTransform | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: int = 5,
    resume: bool = False,
    title: str = "fit",
) -> Run:
    r"""The network trained together with its hyperparameters: weights on the log joint, the rest on the evidence.

    Each epoch is a pass of weight steps; after the burn-in a hyper step follows it. The state with the best evidence,
    judged under common noise, is the one that the network is left in. Everything random is a
    function of (seed, epoch, index), so a run that is killed and resumed ends bit for bit where it would have ended.
    Under an initialized `torch.distributed` process group all processes pass the same data, and each reads its shard.

    Arguments:
        network: The network, `Averaged` or plain; trained in place, and left in evaluation mode.
        train: A pair of tensors, a `Dataset`, or an iterable of batches that can be read more than once.
        likelihood: The likelihood; `Categorical()` by default.
        prior: The prior; `Prior(network)`, one precision per tensor, by default.
        epochs: How many epochs, if other than the settings say.
        config: Every other setting.
        test: Data to measure the trained network on; nothing is learned or chosen by them.
        train_transform: A map (x, index, seed) -> x for weight steps alone; the evidence sees the data as they are.
        callbacks: Functions that receive the record of each epoch.
        checkpoint_dir: Where checkpoints go, every `checkpoint_every` epochs and when the process is told to end
            (SIGTERM, Ctrl-C); the last one is left when the run is complete.
        checkpoint_every: How many epochs lie between two checkpoints.
        resume: Whether to go on from the newest checkpoint there, if there is one.
        title: What the progress bar says.
    """
    config = _with_epochs(config or FitConfig(), epochs)
    likelihood = Categorical() if likelihood is None else likelihood
    prior = Prior(network) if prior is None else prior
    batches = as_batches(train, config.weights.batch_size)
    _check(batches, prior, config, checkpoint_every)
    state = initial_state(network, likelihood, prior, config)
    network.eval()
    check_model(state.model, batches)
    data = read_through(batches)
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    job = Job(
        batches, data.num_data, config, train_transform, folder, checkpoint_every, _fingerprint(state, data, config)
    )
    if not _resumed(state, job, resume) and config.weights.prior_scaled_lr:
        start_within(state.model, prior)  # after every check: a fit that is refused leaves weights alone
    require_alike((_checksum(state), state.epoch, state.step, data), "weights, progress and data")
    with _progress(config, title) as progress, _told_to_end(folder) as told:
        while state.epoch < config.epochs:
            _weight_steps(state, job, progress, told)
            record = _end_of_epoch(state, job)
            for show in callbacks if progress is None else (progress.show, *callbacks):
                show(record)
        _stop_if_told(state, job, told)
    if state.best is not None:
        restore(state, state.best.tensors)
    network.eval()
    return described(state, job.batches, config, test, _seconds(state, job))


def _check(batches: Batches, prior: Prior, config: FitConfig, checkpoint_every: int) -> None:
    """Nothing, or what would stop the run after its burn-in, said before it begins."""
    own_part(batches)  # shards need data that can be read one by one
    if config.hyper.num_data is not None or config.hyper.estimator in ("stochastic", "kernel"):
        batches.at(torch.arange(1))  # so does a choice of M among them
    if config.hyper.estimator == "kernel":
        check_per_weight(prior)
    if (
        config.hyper.estimator == "two_pass"
        and config.hyper.num_data is not None
        and config.hyper.num_data < place()[1]
    ):
        raise StructureError(
            f"Expected 'hyper.num_data' to be at least the number of processes, {place()[1]}. Raise it."
        )
    if config.hyper.estimator == "two_pass" or config.evaluation.num_evaluations:
        curvature = Curvature(cast(CurvatureName, config.curvature), config.evaluation.probes)
        check_curvature(curvature, prior)
    if checkpoint_every < 1:
        raise StructureError(f"checkpoint_every must be at least 1; {checkpoint_every} came.")


def _weight_steps(state: FitState, job: Job, progress: FitProgress | None, told: list[int]) -> None:
    """The weight steps that are left of the epoch under way; ends the fit, with a checkpoint, where that was asked."""
    config = job.config
    state.network.train()
    for batch, size in _parts(state, job):
        _stop_if_told(state, job, told)
        progressed = (state.epoch + state.num_seen / job.num_data) / config.epochs
        after = state.epoch + (state.num_seen + size) / job.num_data
        set_rates(state.weight_optimizer, progressed, warmth(after, config))
        if config.weights.prior_scaled_lr:
            follow(state.weight_optimizer, state.prior)
        if config.hyper.estimator == "augerino" and state.hyper_optimizer is not None:
            set_rates(state.hyper_optimizer, progressed)
        weight_step(state, batch, size, job.num_data, config)
        if progress is not None:
            progress.advance(config.epochs * progressed)
    _stop_if_told(state, job, told)
    state.network.eval()


def _end_of_epoch(state: FitState, job: Job) -> Epoch:
    """What follows the weight steps of an epoch: hyper step, judgement, record, checkpoint."""
    config = job.config
    log_likelihood = state.log_likelihood / max(state.num_seen, 1)
    state.epoch, state.step, state.log_likelihood, state.num_seen = state.epoch + 1, 0, 0.0, 0
    learning = state.hyper_optimizer is not None and is_hyper_epoch(state.epoch, config)
    evidence = hyper_step(state, job.batches, config) if learning else None
    judged = judge(state, job.batches, config) if is_judged_epoch(state.epoch, config) else None
    best = judged is not None and (state.best is None or judged.log_evidence > state.best.evidence.log_evidence)
    if judged is not None and best:
        state.best = Best(state.epoch, judged, snapshot(state))
    record = epoch_record(state, log_likelihood, evidence, judged, best, _seconds(state, job))
    state.history.append(record)
    if state.epoch % job.checkpoint_every == 0 or state.epoch == config.epochs:
        _save(state, job)
    return record


def _parts(state: FitState, job: Job) -> Iterator[tuple[IndexedBatch, int]]:
    """This process's part of each batch that is left of the epoch, with the size of the whole batch."""
    seed = seed_for(job.config.seed, WEIGHTS, state.epoch)
    read = job.batches.read
    if read is None:
        for batch in islice(job.batches, state.step, None):
            yield _transformed(batch, job, seed), len(batch.x)
        return
    order = permutation(seed, job.num_data, stream=Stream.SHUFFLE)
    for positions in order.split(job.config.weights.batch_size)[state.step :]:
        yield _transformed(read(own(positions)), job, seed), len(positions)


def _transformed(batch: IndexedBatch, job: Job, seed: int) -> IndexedBatch:
    if job.train_transform is None or not len(batch.x):
        return batch
    return batch._replace(x=job.train_transform(batch.x, batch.identity, seed))


def _resumed(state: FitState, job: Job, resume: bool) -> bool:
    """Whether the state was set to the newest checkpoint, as where a run is resumed that has one."""
    if job.folder is None:
        if resume:
            raise StructureError("resume needs checkpoint_dir, the folder that the checkpoints are in.")
        return False
    if resume:
        return load_newest(state, job.folder, job.fingerprint) is not None
    if checkpoints(job.folder):
        raise StructureError(
            f"{job.folder} holds the checkpoints of a run. Pass resume to go on with it, or name another folder."
        )
    return False


def _save(state: FitState, job: Job) -> None:
    if job.folder is not None and is_first():
        write_checkpoint(state, job.folder, job.fingerprint, _seconds(state, job))


def _stop_if_told(state: FitState, job: Job, told: list[int]) -> None:
    """Nothing, or the end of the fit with a checkpoint; processes agree on it, so that none waits for another."""
    if job.folder is None or not all_sum_number(len(told)):
        return
    _save(state, job)
    all_sum_number(0)  # no process leaves before the first has written
    epoch = min(state.epoch + 1, job.config.epochs)
    raise Interrupted(
        f"Told to end in epoch {epoch} of {job.config.epochs}; the state is in {job.folder}. Resume to go on.",
        told[0] if told else signal.SIGTERM,
    )


@contextmanager
def _told_to_end(folder: Path | None) -> Iterator[list[int]]:
    """The signals (SIGTERM, Ctrl-C) that told the process to end: a second one ends it at once."""
    told: list[int] = []
    if folder is None or threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        if told:
            raise KeyboardInterrupt
        told.append(number)

    for number in before:
        signal.signal(number, ask)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _progress(config: FitConfig, title: str) -> AbstractContextManager[FitProgress | None]:
    return FitProgress(config.epochs, title) if is_first() else nullcontext()


def _with_epochs(config: FitConfig, epochs: int | None) -> FitConfig:
    return config if epochs is None else config.replace(epochs=epochs)


def _fingerprint(state: FitState, data: Contents, config: FitConfig) -> dict[str, Any]:
    """What must be the same when a fit goes on."""
    shapes = {name: f"{tuple(tensor.shape)} {tensor.dtype}" for name, tensor in snapshot(state).items()}
    roles = {
        "num_samples": getattr(state.network, "num_samples", 1),
        "weights": list(state.model.weights),
        "hyperparameters": list(state.hyperparameters()),
    }
    return {**flat_settings(config.as_dict()), "num_data": data.num_data, "data": data.checksum, **roles, **shapes}


def _checksum(state: FitState) -> int:
    checksum = 0
    for tensor in snapshot(state).values():
        checksum = zlib.crc32(tensor.cpu().contiguous().numpy().tobytes(), checksum)
    return checksum


def _seconds(state: FitState, job: Job) -> float:
    return state.seconds + time.monotonic() - job.started
