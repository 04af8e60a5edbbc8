"""A fit's state as one file that is there whole or not at all, and back: tensors and a JSON header, never pickle.

A checkpoint is a safetensors file; its header holds a JSON text with everything that is no tensor, and the SHA-256 of
both. The two newest are kept, so that a damaged one has another behind it.
"""

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .._files import require_regular, write_whole
from ..errors import DataError, StructureError
from ..hypergrad import RunningStatistics
from ..records import Epoch, Evidence, FileCheck, from_plain
from ..records.verify import State
from .hyper_state import optimizer_tensors, set_optimizer_tensors
from .state import Best, FitState, restore, snapshot
from .widths import WidthLearning

VERSION = 7
RATES = ("first", "final", "size")  # what a group of weights keeps of the run's start
BEST = ("epoch", "log_likelihood", "evidence")
HEADER, CHECKSUM = "covary_checkpoint", "sha256"
KEPT = 2


@dataclass(frozen=True)
class Checkpoints:
    """Where `fit` writes checkpoints, how often, and whether it resumes from them.

    Arguments:
        folder: The folder, made if it is missing.
        every: Epochs from one checkpoint to the next.
        resume: Whether to continue from the newest one, if there is one.

    Example:
        >>> covary.Checkpoints("runs/digits", every=2, resume=True).every
        2
    """

    folder: str | Path
    every: int = 5
    resume: bool = False

    def __post_init__(self) -> None:
        """Raise `StructureError` if `every` is below 1."""
        if self.every < 1:
            raise StructureError(f"Expected 'every' to be at least 1, got {self.every}.")

    @property
    def path(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)


def write_checkpoint(state: FitState, folder: Path, fingerprint: Mapping[str, Any], seconds: float) -> Path:
    """The state as a file in a folder: written beside its place, flushed to the disk, then moved there.

    Arguments:
        state: The state.
        folder: The folder, made where it is absent.
        fingerprint: What must be the same when the fit goes on: settings, data, shapes.
        seconds: The time the run has taken so far.
    """
    tensors = {name: tensor.cpu().contiguous() for name, tensor in _tensors(state).items()}
    header = {
        "version": VERSION,
        "fingerprint": dict(fingerprint),
        "rates": [[group[key] for key in RATES] for group in state.weight_optimizer.param_groups],
        "epoch": state.epoch,
        "step": state.step,
        "log_likelihood": state.log_likelihood,
        "num_seen": state.num_seen,
        "seconds": seconds,
        "timings": state.timings,
        "best": None if state.best is None else [getattr(state.best, name) for name in BEST],
        "learning": dataclasses.asdict(state.hyper.learning),
        "evidence": state.hyper.evidence,
        "constant": state.hyper.constant,
        "untrained": state.untrained,
        "problem": state.problem,
        "history": [dataclasses.asdict(epoch) for epoch in state.history],
    }
    text = json.dumps(header, default=dataclasses.asdict)
    path = folder / f"checkpoint-{state.epoch:06d}-{state.step:06d}.safetensors"
    write_whole(path, save(tensors, {HEADER: text, CHECKSUM: _checksum(tensors, text)}))
    for old in checkpoint_files(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"), reverse=True)


def load_newest(state: FitState, folder: Path, fingerprint: Mapping[str, Any]) -> Path | None:
    """The checkpoint that the state was set to, or None where there is none.

    A damaged one is passed over, with a warning that says so.

    Arguments:
        state: A fresh state of the same modules, changed.
        folder: The folder.
        fingerprint: As when it was written; a difference is an error that names it.
    """
    found = checkpoint_files(folder)
    for path in found:
        try:
            header, tensors = _read(path)
        except DataError as error:
            rest = "trying the one before it" if path != found[-1] else "there is none before it"
            warnings.warn(f"{error} It is passed over; {rest}.", stacklevel=2)
            continue
        _check_fingerprint(header["fingerprint"], fingerprint, path)
        _set_state(state, header, tensors, path)
        return path
    if found:
        raise DataError(f"No checkpoint in {folder} can be read. Start anew without resuming, into another folder.")
    return None


def verify_checkpoints(folder: Path) -> list[FileCheck]:
    """Every checkpoint in the folders of a folder, with the result of its checksum."""
    found = []
    for path in sorted(folder.glob("*/checkpoint-*.safetensors")):
        try:
            _read(path)
            state: State = "ok"
        except DataError:
            state = "damaged"
        found.append(FileCheck(str(path.relative_to(folder.parent)), state))
    return found


def _tensors(state: FitState) -> dict[str, Tensor]:
    best = {} if state.best is None else _prefixed("best", state.best.tensors)
    weights = _prefixed("weight_optimizer", optimizer_tensors(state.weight_optimizer))
    sums = {} if state.hyper.running is None else state.hyper.running.to_tensors()
    hyper = _prefixed("hyper_optimizer", optimizer_tensors(state.hyper.optimizer))
    return _prefixed("now", snapshot(state)) | best | weights | hyper | _prefixed("running", sums)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        total.update(tensors[name].numpy().tobytes())
    return total.hexdigest()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of one file, once its checksum is right."""
    try:
        require_regular(path)  # a pipe would block
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(metadata[HEADER])
        if metadata[CHECKSUM] != _checksum(tensors, metadata[HEADER]):
            raise DataError(f"Checkpoint {path} is damaged: its checksum does not fit its content.")
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"Checkpoint {path} is damaged ({error}).") from error
    if not isinstance(header, dict):
        raise DataError(f"Checkpoint {path} is damaged: its header is no record of a fit.")
    if header.get("version") != VERSION:
        raise DataError(f"Checkpoint {path} has format version {header.get('version')!r}, this covary reads {VERSION}.")
    if not isinstance(header.get("fingerprint"), dict):
        raise DataError(f"Checkpoint {path} is damaged: its header does not say which fit it belongs to.")
    return header, tensors


def _check_fingerprint(written: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    for name in {**written, **now}:
        if written.get(name) != now.get(name):
            raise StructureError(
                f"{path.parent} holds a run with {name} = {written.get(name)!r:.60}, got {now.get(name)!r:.60}. "
                "Resume with the same settings and data, or write to another folder."
            )


def _set_state(state: FitState, header: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    hyper, parts = state.hyper, dict[str, dict[str, Tensor]]()
    for key, tensor in tensors.items():
        owner, name = key.split("/", 1)
        parts.setdefault(owner, {})[name] = tensor
    try:
        restore(state, parts["now"])
        set_optimizer_tensors(state.weight_optimizer, parts.get("weight_optimizer", {}))
        # those of the run's own start: relative learning rates would follow the sizes of another network
        for group, values in zip(state.weight_optimizer.param_groups, header["rates"], strict=True):
            group.update(zip(RATES, values, strict=True))
        set_optimizer_tensors(hyper.optimizer, parts.get("hyper_optimizer", {}))
        state.epoch, state.step = header["epoch"], header["step"]
        state.log_likelihood, state.num_seen = header["log_likelihood"], header["num_seen"]
        state.seconds, state.untrained = header["seconds"], header["untrained"]
        state.timings = from_plain(header["timings"], dict[str, float], f"{path}.timings")
        state.history = [from_plain(entry, Epoch, f"{path}.history") for entry in header["history"]]
        hyper.learning = from_plain(header["learning"], WidthLearning, f"{path}.learning")
        hyper.evidence, state.problem = _evidence(header["evidence"], path), header["problem"]
        hyper.constant, hyper.num_seen = header["constant"], state.epoch * hyper.num_data + state.num_seen
        hyper.log_likelihood = state.history[-1].log_likelihood if state.history else -math.inf
        if "running" in parts:
            hyper.running = RunningStatistics.from_tensors(parts["running"], list(state.model.weights))
        if header["best"] is not None:
            epoch, log_likelihood, evidence = header["best"]
            state.best = Best(epoch, log_likelihood, _evidence(evidence, path), parts["best"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"Checkpoint {path} does not fit this network ({error}).") from error


def _evidence(entry: Any, path: Path) -> Evidence | None:
    return None if entry is None else from_plain(entry, Evidence, f"{path}.evidence")
