"""The loop of `fit`: epochs of weight steps with hyper steps between them, evaluations, checkpoints and callbacks."""

import math
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any, NoReturn

from torch import Tensor

from ..batches import Batches, Contents, Data, IndexedBatch, as_batches, read_through
from ..config import FitConfig
from ..curvature.passes import check_model
from ..data.dataset import Augmented, Dataset
from ..distributed import all_sum_number, is_first, own, require_alike
from ..errors import Interrupted, StructureError
from ..models import Model
from ..noise import Stream, permutation
from ..records import Epoch, Evidence, RunRecord
from ..records.words import flat_settings
from .callbacks import Callback, ProgressPrinter, as_callbacks, enter_phase, reported
from .checkpoint import Checkpoints, checkpoint_files, load_newest, write_checkpoint
from .constant import constant_of
from .devices import move_model, resolved_devices, stepped_on
from .held_out import check_test
from .hyper import check_learning
from .learner import EvidenceLearner
from .learning_rates import follow, set_rates, start_within
from .log import ProgressLog
from .modes import evaluation, set_training, warn_of_modes
from .problems import finite_evidence, log_likelihood_of, problem_of_epoch
from .record import described, epoch_record
from .schedule import (
    WEIGHTS,
    filled_in,
    is_evaluated_epoch,
    seed_for,
    warmth,
)
from .state import Best, FitState, initial_state, restore, snapshot
from .steps import check_last_batch, weight_step
from .timing import timed, timed_items


@dataclass(frozen=True)
class Job:
    """What a fit works with: the learner of hyperparameters, data, settings, callbacks, where checkpoints are."""

    learner: EvidenceLearner
    batches: Batches
    num_data: int
    config: FitConfig
    transform: Callable[[Tensor, Tensor, int], Tensor] | None
    checkpoints: Checkpoints | None
    callbacks: list[Callback]
    fingerprint: dict[str, Any]
    constant: Callable[[], float]
    started: float = field(default_factory=time.monotonic)


def train(
    model: Model,
    data: Data | Augmented,
    config: FitConfig,
    *,
    test: Data | None,
    checkpoints: Checkpoints | None,
    callbacks: Sequence[Callback | Callable[[Epoch], None]] | None,
) -> RunRecord:
    """Train a model in place, as `covary.fit` says, and return the record."""
    network, prior = model.network, model.prior
    transform, data = (data.transform, data.data) if isinstance(data, Augmented) else (None, data)
    name = data.name if isinstance(data, Dataset) else ""
    devices = resolved_devices(config.device, network)
    move_model(model, devices.model)
    batches = as_batches(data, config.weights.batch_size).matching(network)
    check_learning(model, batches, config)
    state = initial_state(network, model.likelihood, prior, config)
    if devices.weight_steps != devices.model:
        state.stepped = stepped_on(network, devices.weight_steps, config)
    _check(state, batches, test, config)
    contents = read_through(batches)
    config = filled_in(config, contents.num_data)
    shown = as_callbacks(([ProgressPrinter()] if is_first() else []) if callbacks is None else callbacks)
    with evaluation(network):
        constant = constant_of(model, batches)
        state.untrained = log_likelihood_of(state, next(iter(batches)), config)
    fingerprint = _fingerprint(state, contents, config)
    learner = EvidenceLearner.of_state(state.hyper, batches, config)
    job = Job(learner, batches, contents.num_data, config, transform, checkpoints, shown, fingerprint, constant)
    state.hyper.num_data, state.hyper.constant = contents.num_data, constant()
    resumed = _resumed(state, job)
    if not resumed and config.weights.prior_scaled_lr:
        start_within(model, prior)  # after every check: a refused fit changes no weights
    if checkpoints is not None and is_first():
        job.callbacks.append(ProgressLog(checkpoints.path, state.history))
    require_alike((_checksum(state), state.epoch, state.step, contents), "weights, progress and data")
    with reported(job.callbacks, config, state.epoch if resumed else None):
        with _told_to_end(checkpoints) as told:
            while state.epoch < config.epochs and state.problem is None:
                _weight_steps(state, job, told)
                _end_epoch(state, job)
            _stop_if_told(state, job, told)
        if state.best is not None and (state.best.evidence is not None or state.problem is not None):
            restore(state, state.best.tensors)
        network.eval()
        enter_phase(job.callbacks, "evaluating" if test is None else "testing")
        return described(state, job.batches, config, test, lambda: _seconds(state, job), name)


def _check(state: FitState, batches: Batches, test: Data | None, config: FitConfig) -> None:
    """Warn of modes that are easily a mistake, and raise an error for what would end a fit after its first step."""
    warn_of_modes(state.network)
    with evaluation(state.network):
        check_model(state.model, batches)
        check_test(state.model, test, config.seed)
    check_last_batch(state.network, batches, config.weights.batch_size)


def _weight_steps(state: FitState, job: Job, told: list[int]) -> None:
    """Take the remaining weight steps of the current epoch; end the fit, with a checkpoint, on a signal."""
    config = job.config
    set_training(state.network, state.evaluation_modules)
    enter_phase(job.callbacks, "training")
    _stop_if_told(state, job, told)
    for batch, size in timed_items(state.timings, "weights", _parts(state, job)):
        progressed = (state.epoch + state.num_seen / job.num_data) / config.epochs
        after = state.epoch + (state.num_seen + size) / job.num_data
        set_rates(state.weight_optimizer, progressed, warmth(after, config))
        if config.weights.prior_scaled_lr:
            follow(state.weight_optimizer, state.prior)
        if config.hyper.estimator == "augerino" and state.hyper.optimizer is not None:
            set_rates(state.hyper.optimizer, progressed)
        with timed(state.timings, "weights"):
            asked = weight_step(state, batch, size, job.num_data, config, len(told))
        with timed(state.timings, "hyper"):
            job.learner.step(size)
        for callback in job.callbacks:
            callback.on_step(config.epochs * progressed)
        if asked:
            _stop(state, job, told)
    _stop_if_told(state, job, told)
    state.network.eval()


def _end_epoch(state: FitState, job: Job) -> None:
    """Do what follows the steps of an epoch: evaluation, record, checkpoint, callbacks."""
    config, hyper = job.config, state.hyper
    log_likelihood = state.log_likelihood / max(state.num_seen, 1)
    state.epoch, state.step, state.log_likelihood, state.num_seen = state.epoch + 1, 0, 0.0, 0
    if state.learns_likelihood:
        hyper.constant = job.constant()
    state.problem = problem_of_epoch(state, job.batches, config, log_likelihood)
    evaluated = None
    if math.isfinite(log_likelihood) and is_evaluated_epoch(state.epoch, config):
        enter_phase(job.callbacks, "evaluating")
        with timed(state.timings, "evaluation"):
            evaluated = job.learner.evaluate()
    hyper.evidence, evaluated = finite_evidence(state, hyper.evidence), finite_evidence(state, evaluated)
    best = _is_best(state, log_likelihood, evaluated)
    if best:
        state.best = Best(state.epoch, log_likelihood, evaluated, snapshot(state))
    seconds = _seconds(state, job)
    record = epoch_record(state, log_likelihood, hyper.evidence, evaluated, best and evaluated is not None, seconds)
    hyper.evidence, hyper.log_likelihood = None, log_likelihood
    if math.isfinite(log_likelihood):  # no record holds another; the problem says so
        state.history.append(record)
    every = 1 if job.checkpoints is None else job.checkpoints.every
    if state.epoch % every == 0 or state.epoch == config.epochs or state.problem is not None:
        _save(state, job)
    for callback in job.callbacks:
        callback.on_epoch(record)


def _is_best(state: FitState, log_likelihood: float, evaluated: Evidence | None) -> bool:
    """Whether the state is the best so far: by evidence, and by the log-likelihood until there is one."""
    best = state.best
    if evaluated is not None:
        return best is None or best.evidence is None or evaluated.log_evidence > best.evidence.log_evidence
    return best is None or (best.evidence is None and log_likelihood > best.log_likelihood)


def _parts(state: FitState, job: Job) -> Iterator[tuple[IndexedBatch, int]]:
    """This process's shard of each remaining batch of the epoch, with the size of the whole batch."""
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
    if job.transform is None or not len(batch.x):
        return batch
    return batch._replace(x=job.transform(batch.x, batch.identity, seed))


def _resumed(state: FitState, job: Job) -> bool:
    """Whether the state was set to the newest checkpoint: there is one, and the fit is to be resumed."""
    if job.checkpoints is None:
        return False
    if job.checkpoints.resume:
        return load_newest(state, job.checkpoints.path, job.fingerprint) is not None
    if checkpoint_files(job.checkpoints.path):
        raise StructureError(
            f"'{job.checkpoints.folder}' has the checkpoints of another run. Pass resume=True to continue it, or "
            "choose another folder."
        )
    return False


def _save(state: FitState, job: Job) -> None:
    if job.checkpoints is not None and is_first():
        write_checkpoint(state, job.checkpoints.path, job.fingerprint, _seconds(state, job))


def _stop_if_told(state: FitState, job: Job, told: list[int]) -> None:
    """Stop on a signal; processes agree, so that none waits for another."""
    if job.checkpoints is not None and all_sum_number(len(told)):
        _stop(state, job, told)


def _stop(state: FitState, job: Job, told: list[int]) -> NoReturn:
    """Write a checkpoint and raise `Interrupted`, in all processes."""
    assert job.checkpoints is not None, "signals are heard where there are checkpoints"
    _save(state, job)
    all_sum_number(0)  # no process leaves before the first has written
    epoch = min(state.epoch + 1, job.config.epochs)
    raise Interrupted(
        f"Stopped by a signal in epoch {epoch} of {job.config.epochs}; the state is in '{job.checkpoints.folder}'. "
        "Resume to continue.",
        told[0] if told else signal.SIGTERM,
    )


@contextmanager
def _told_to_end(checkpoints: Checkpoints | None) -> Iterator[list[int]]:
    """The signals (SIGTERM, Ctrl-C) that asked the process to end: a second one ends it at once."""
    told: list[int] = []
    if checkpoints is None or threading.current_thread() is not threading.main_thread():
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


def _fingerprint(state: FitState, data: Contents, config: FitConfig) -> dict[str, Any]:
    """What must be the same when a fit goes on."""
    shapes = {name: f"{tuple(tensor.shape)} {tensor.dtype}" for name, tensor in snapshot(state).items()}
    roles = {
        "num_samples": getattr(state.network, "num_samples", 1),
        "weights": list(state.model.weights),
        "point": list(state.prior.point_names),
        "hyperparameters": list(state.hyper.hyperparameters()),
        "evaluation_modules": list(state.evaluation_modules),
    }
    settings = {name: value for name, value in flat_settings(config.as_dict()).items() if name != "device"}
    return {**settings, "num_data": data.num_data, "data": data.checksum, **roles, **shapes}


def _checksum(state: FitState) -> int:
    checksum = 0
    for tensor in snapshot(state).values():
        checksum = zlib.crc32(tensor.cpu().contiguous().numpy().tobytes(), checksum)
    return checksum


def _seconds(state: FitState, job: Job) -> float:
    return state.seconds + time.monotonic() - job.started
