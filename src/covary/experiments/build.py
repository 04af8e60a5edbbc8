"""The pieces of an experiment: data with a known symmetry, networks that learn it, and baselines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from .. import data
from ..augment import RandAugment, TrivialAugment
from ..augment.automatic import Automatic, Transform, as_transform, check_range, in_turn
from ..config import ExperimentConfig, FitConfig
from ..data.dataset import Augmented, held_out
from ..data.transforms import QUADRANT_SIDE
from ..errors import StructureError
from ..layers import initialize_equivariant
from ..likelihoods import Categorical, Gaussian
from ..models import Model
from ..networks import Averaged, Rescaled, Standardized
from ..networks import build as build_network
from ..priors import Prior, hyperparameters_of
from ..records import Baseline
from ..training import Callback, Checkpoints, Run, fit
from ..training.augerino import AUGERINO_DECAY, AUGERINO_RATE
from .augmentations import build as build_augmentation
from .augmentations import layout_of


def silent(name: str) -> Sequence[Callback]:
    """No callbacks."""
    del name
    return ()


class Session(NamedTuple):
    """Where a run writes checkpoints, whether it resumes from them, and what reports its progress."""

    folder: Path | None = None  # the folder, or None for a run that writes none
    resume: bool = False  # whether to continue from the newest
    every: int = 5  # epochs from one to the next
    # from the name of a fit, "learn" or a baseline, to its callbacks
    callbacks: Callable[[str], Sequence[Callback]] = silent

    def checkpoints(self, name: str) -> Checkpoints | None:
        """The checkpoints of one fit of the run."""
        return None if self.folder is None else Checkpoints(self.folder / name, self.every, self.resume)


ALONE = Session()
AUTOMATIC: dict[str, Automatic] = {"trivialaugment": TrivialAugment(), "randaugment": RandAugment()}
NO_BASELINES: dict[str, Any] = {"baselines": (), "equal": "epochs", "fixed_widths": {}}


class Task(NamedTuple):
    """A data set in the type it is trained in."""

    dataset: data.Dataset
    true_widths: dict[str, float]  # the amounts that it was made with, where they are known
    # the mean and deviation of each channel that networks standardize by, or None for images as they are
    moments: tuple[Tensor, Tensor] | None = None
    scales: tuple[Tensor, Tensor] | None = None  # the mean and deviation of each target of a regression

    def likelihood(self) -> Categorical | Gaussian:
        """The likelihood of the targets; the noise of real ones starts at their deviation."""
        return Categorical() if self.scales is None else Gaussian(self.scales[1].tolist())


def prepared(config: ExperimentConfig) -> Task:
    """The data as the settings ask for them: limited, made symmetric, placed in quadrants, resampled, typed."""
    seed, regression = config.fit.seed, config.task == "regression"
    _require_file(config)
    dataset = data.load(config.data, config.data_dir, reading_of(config))
    if config.test_share:
        dataset = held_out(dataset, config.test_share, seed)
    if config.num_train is not None:
        dataset = data.limited(dataset, config.num_train, seed)
    made, known = dataset, {}
    if dataset.x_train.ndim == 4:
        height, width = dataset.x_train.shape[-2:]
        made = data.symmetrize(dataset, config.symmetrize, seed)
        known = data.true_widths(config.symmetrize, height, width)
        if config.task not in ("none", "regression"):  # a digit that turns in its quadrant is no image that turns
            made, known = data.in_quadrants(made, config.task, seed, config.size or QUADRANT_SIDE), {}
        elif config.size is not None:
            made = data.resized(made, config.size)
    else:
        _require_plain(config, made.x_train)
    moments = data.channel_moments(made.x_train, made.feature_names) if _standardizes(config, made.x_train) else None
    scales = data.channel_moments(made.y_train, made.target_names) if regression else None
    dtype = getattr(torch, config.dtype)
    typed = made._replace(x_train=made.x_train.to(dtype), x_test=made.x_test.to(dtype))
    if regression:
        typed = typed._replace(y_train=made.y_train.to(dtype), y_test=made.y_test.to(dtype))
    return Task(typed, known, moments, scales)


def _standardizes(config: ExperimentConfig, x: Tensor) -> bool:
    """Whether networks standardize the data: by default images with several channels, and tables."""
    if config.standardize is not None:
        return config.standardize
    return x.ndim == 2 or (x.ndim == 4 and x.shape[1] > 1)


def reading_of(config: ExperimentConfig) -> data.Reading:
    """How the source is read: what its arrays are follows from the augmentation, or from a table of features."""
    regression = config.task == "regression"
    table = regression and config.augment == "none" and config.size is None and not config.standardize
    layout = "features" if table else layout_of(config.augment)
    return data.Reading(layout, config.keys, config.size, regression, config.target)


def _require_file(config: ExperimentConfig) -> None:
    """Raise `StructureError` for settings that a source of another kind has."""
    for name, suffix, given in (("keys", ".npz", config.keys), ("target", ".csv", config.target)):
        if given and Path(config.data).suffix.lower() != suffix:
            raise StructureError(
                f"The setting '{name}' names parts of an {suffix} file, and '{config.data}' is none. Leave it out."
            )


def _require_plain(config: ExperimentConfig, x: Tensor) -> None:
    """Raise `StructureError` for settings that images alone have."""
    if x.ndim == 2 and config.augment != "none":
        raise StructureError(
            f"The augmentation '{config.augment}' is of data in space, and these are a table. Pass --augment none."
        )
    images = {"symmetrize": config.symmetrize != "none", "size": config.size is not None}
    images |= {"task": config.task not in ("none", "regression"), "train_augment": config.train_augment != "none"}
    for name, given in images.items():
        if given:
            raise StructureError(f"The setting '{name}' is of images, and these data are none. Leave it out.")


def model(config: ExperimentConfig, task: Task) -> nn.Module:
    """The network as it starts, averaged over the augmentation that is to be learned, where there is one."""
    network = _network(config, task)
    if config.augment == "none":
        return network
    return Averaged(network, build_augmentation(config.augment, dtype=config.dtype), config.num_samples)


def learn(config: ExperimentConfig, task: Task, session: Session = ALONE) -> Run:
    """The network trained together with its augmentation and prior."""
    return _fitted("learn", _learned(config, task), config, task, session)


def trained(method: str, config: ExperimentConfig, task: Task) -> Run:
    """The run of a method: "learned", or the name of a baseline."""
    return _fitted(method, start_of(method, config, task), config, task, ALONE)


def run_baseline(name: str, config: ExperimentConfig, task: Task, session: Session = ALONE) -> Baseline:
    """Another way to train the same network: same draw of initial weights, data, epochs and test samples."""
    return baseline_run(name, name, config, task, session)[0]


def baseline_run(
    name: str, title: str, config: ExperimentConfig, task: Task, session: Session = ALONE
) -> tuple[Baseline, Run]:
    """A baseline with its run; the title names its row and its checkpoints."""
    run = _fitted(title, _BASELINES[name](config, task), config, task, session, AUTOMATIC.get(name))
    record, epochs = run.record, len(run.record.history)
    return Baseline(title, run.symmetries, run.evidence, record.test, record.seconds, epochs), run


def check_baselines(config: ExperimentConfig, task: Task) -> None:
    """Raise an error for a baseline that cannot be built, before the first run."""
    for name in config.baselines:
        _BASELINES[name](config, task)
        if name in AUTOMATIC:
            check_range(task.dataset.x_train)


Start = tuple[nn.Module, Prior, FitConfig]


def _learned(config: ExperimentConfig, task: Task) -> Start:
    """Everything learned by the evidence."""
    network = model(config, task)
    return network, _prior(config, network), config.fit


def _plain(config: ExperimentConfig, task: Task) -> Start:
    """No augmentation: the average over any number of equal samples is the network itself."""
    return _learned(replace(config, augment="none", **NO_BASELINES), task)


def _fixed(config: ExperimentConfig, task: Task) -> Start:
    """The widths that the user names; the prior is learned."""
    augment = build_augmentation(config.augment, config.fixed_widths, config.dtype)
    network = Averaged(_network(config, task), augment, config.num_samples)
    cast(nn.Module, network.augment).requires_grad_(False)
    return network, _prior(config, network), config.fit


def _augerino(config: ExperimentConfig, task: Task) -> Start:
    """Joint descent on loss minus a reward for width, with a fixed weight decay; it has no evidence to report."""
    network = model(config, task)
    decay = AUGERINO_DECAY * len(task.dataset.x_train)
    prior = Prior(network, "scalar", decay, point=config.point).requires_grad_(False)
    rates = {"augment_lr": AUGERINO_RATE, "augment_lr_min": AUGERINO_RATE}
    joint = {"hyper": {"estimator": "augerino"} | rates, "evaluation": {"num_evaluations": 0}}
    return network, prior, config.fit.replace(**joint, weights={"prior_scaled_lr": False})


def _map(config: ExperimentConfig, task: Task) -> Start:
    """No augmentation, precisions fixed at 1 (a weight decay of 1/N): the evidence is evaluated, never followed."""
    network = _network(config, task)
    prior = prior_of(config, network).requires_grad_(False)
    for parameter in hyperparameters_of(network, Model(network, prior=prior).trained_weights).values():
        parameter.requires_grad_(False)
    num_evaluations = min(config.fit.evaluation.num_evaluations, 1)
    return network, prior, config.fit.replace(evaluation={"num_evaluations": num_evaluations})


def _conv(config: ExperimentConfig, task: Task) -> Start:
    """The network of the same width whose layers are convolutions and nothing else, learned the same way."""
    width = config.network.split(":")[2]
    alone = replace(config, network=f"relaxed:conv:{width}", relaxation=1.0, **NO_BASELINES)
    return _learned(alone, task)


_BASELINES: dict[str, Callable[[ExperimentConfig, Task], Start]] = {
    "plain": _plain,
    "fixed": _fixed,
    "augerino": _augerino,
    "trivialaugment": _plain,
    "randaugment": _plain,
    "map": _map,
    "conv": _conv,
}


def start_of(method: str, config: ExperimentConfig, task: Task) -> Start:
    """Network, prior and settings of a method before training: "learned", or the name of a baseline."""
    return (_BASELINES | {"learned": _learned})[method](config, task)


def prior_of(config: ExperimentConfig, network: nn.Module, precision: float | Mapping[str, float] = 1.0) -> Prior:
    """The prior of the settings: its structure, and the role of each parameter."""
    return Prior(network, config.prior, precision, point=config.point, hyperparameters=config.hyperparameters)


def _prior(config: ExperimentConfig, network: nn.Module) -> Prior:
    """The prior as it starts; with a relaxation below 1 the network is made to start as its equivariant paths."""
    if config.relaxation == 1:
        return prior_of(config, network)
    precisions = initialize_equivariant(network, config.relaxation)
    if not precisions:
        raise StructureError(
            f"relaxation={config.relaxation} lets layers start as one of their paths; no layer of '{config.network}' "
            "has two. Leave it at 1, or name a sum such as relaxed:f-fc+conv:4."
        )
    return prior_of(config, network, precisions | {"*": 1.0})


def _fitted(
    name: str, start: Start, config: ExperimentConfig, task: Task, session: Session, automatic: Automatic | None = None
) -> Run:
    network, prior, settings = start
    train = task.dataset.train
    transforms: list[Transform] = [data.flips_and_shifts] if config.train_augment == "flips+shifts" else []
    transforms += [] if automatic is None else [as_transform(automatic)]
    return fit(
        Model(network, task.likelihood(), prior),
        Augmented(train, in_turn(transforms)) if transforms else train,
        settings,
        test=task.dataset.test if len(task.dataset.x_test) else None,
        checkpoints=session.checkpoints(name),
        callbacks=session.callbacks(name),
    )


def _network(config: ExperimentConfig, task: Task) -> nn.Module:
    shape = tuple(task.dataset.x_train.shape[1:])
    network = build_network(config.network, shape, task.dataset.num_outputs, config.fit.seed)
    network = network.to(getattr(torch, config.dtype))
    if task.moments is not None:
        network = Standardized(network, *task.moments, len(shape) - 1)
    return network if task.scales is None else Rescaled(network, *task.scales)
