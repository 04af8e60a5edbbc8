"""The options that `discover` and `layers` share: what a run reads, how it trains, where it writes.

One record holds them all. `with_run_flags` puts its fields behind the options of a command's own, with the defaults of
that command; `settings` turns the record into the run's settings.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..config import BASELINES, TRAIN_AUGMENTS, ExperimentConfig
from ..data.transforms import TASKS
from ..errors import CovaryError
from ..experiments import AUGMENTATIONS
from .output import Json

# Flag -> the setting of training that it sets, where that is one of a group.
GROUPED = {
    "batch_size": "weights.batch_size",
    "optimizer": "weights.optimizer",
    "momentum": "weights.momentum",
    "learning_rate": "weights.lr",
    "warm_up": "weights.warmup_epochs",
    "burn_in": "hyper.burn_in",
    "frequency": "hyper.every",
    "estimator": "hyper.estimator",
    "columns": "hyper.probes",
    "judge_columns": "evaluation.probes",
    "judgements": "evaluation.num_evaluations",
    "hyper_data": "hyper.num_data",
    "hyper_samples": "hyper.num_samples",
    "hyper_sets": "hyper.num_sets",
    "hyper_steps": "hyper.num_steps",
    "prior_steps": "hyper.num_prior_steps",
    "augment_rate": "hyper.augment_lr",
    "prior_rate": "hyper.prior_lr",
}


LEARNED: tuple[Literal["augment", "prior"], ...] = ("augment", "prior")


def _option(text: str, name: str | None = None) -> Any:
    return typer.Option(*([name] if name else []), help=text)


@dataclass(frozen=True)
class RunFlags:
    """What the shared options were set to."""

    data: Annotated[str, _option("A name, an .npz, a folder of class folders, or package.module:function.")]
    data_dir: Annotated[str | None, _option("Where to look first for data sets.")]
    symmetrize: Annotated[str, _option("A known symmetry: rotate:DEG, translate:PIXELS, scale:FACTOR.")]
    num_train: Annotated[int | None, _option("How many training images to use.")]
    task: Annotated[str, _option(f"Each image in a random quadrant: {', '.join(TASKS)}.")]
    size: Annotated[int | None, _option("Resample square images to this side; 0 leaves all images as they are.")]
    standardize: Annotated[bool, _option("Whether the network sees images of mean 0 and variance 1.")]
    augment: Annotated[str, _option(f"What to learn: none, {', '.join(AUGMENTATIONS)}.")]
    train_augment: Annotated[str, _option(f"Seen by weight updates alone: {', '.join(TRAIN_AUGMENTS)}.")]
    num_samples: Annotated[int, _option("Copies of each image in weight steps and the test.", "--samples")]
    prior: Annotated[str, _option("One precision per: scalar (all), layerwise (tensor), diagonal (weight).")]
    baselines: Annotated[str, _option(f"Compare with, joined by commas: {', '.join(BASELINES)}.")]
    fixed_widths: Annotated[str, _option("Widths of the baseline 'fixed', such as rotation=1.57,shift_x=0.1.")]
    epochs: Annotated[int, _option("Passes over the training data.")]
    batch_size: Annotated[int, _option("Images in a weight step.")]
    optimizer: Annotated[str, _option("adam or sgd.")]
    momentum: Annotated[float, _option("The momentum of sgd.")]
    learning_rate: Annotated[float, _option("The weights' rate; it falls along a cosine.")]
    warm_up: Annotated[int, _option("Epochs over which that rate rises from zero.")]
    burn_in: Annotated[int, _option("Epochs before the first hyper step.")]
    frequency: Annotated[int, _option("A hyper step every so many epochs.")]
    estimator: Annotated[str, _option("two_pass; kernel (a bound, all images in blocks); stochastic (few images).")]
    curvature: Annotated[str, _option("kron, kron-traced, full or diag.")]
    columns: Annotated[str, _option("Sketches in the hyper-gradient, or exact.")]
    judge_columns: Annotated[str, _option("Sketches in judgements, layer summaries and prune, or exact.")]
    judgements: Annotated[int, _option("States compared by their evidence, to keep the best; 1 keeps the last.")]
    hyper_data: Annotated[int | None, _option("Images that each step on the augmentation reads, or a block has.")]
    hyper_samples: Annotated[int | None, _option("Copies of each image in hyper steps.")]
    hyper_sets: Annotated[int, _option("Independent sets those copies are drawn in: 1, or 2 against bias.")]
    hyper_steps: Annotated[int, _option("Steps on the augmentation per pass over all images.")]
    prior_steps: Annotated[int, _option("Steps on the prior per pass over all images.")]
    augment_rate: Annotated[float, _option("The augmentation's first rate; it falls along a cosine.")]
    prior_rate: Annotated[float, _option("The prior's first rate; it falls along a cosine.")]
    dtype: Annotated[str, _option("float32 or float64.")]
    seed: Annotated[int, _option("The seed of everything random.")]
    out: Annotated[Path, _option("The folder for records, network and report.")] = Path("runs/latest")
    resume: Annotated[bool, _option("Go on with the unfinished run in that folder.", "--resume")] = False
    plan_only: Annotated[bool, _option("Print what the run would need, and do nothing.", "--plan")] = False
    as_json: Json = False


def with_run_flags(defaults: ExperimentConfig) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of a command whose last parameter is a `RunFlags`: its fields become options of the command.

    Arguments:
        defaults: Where the defaults of these options come from.
    """
    fit = defaults.fit
    grouped = {flag: getattr(getattr(fit, group), name) for flag, (group, name) in _parts().items()}
    words = {"columns": str(fit.hyper.probes), "judge_columns": str(fit.evaluation.probes)}
    known = defaults.as_dict() | grouped | words | {"baselines": "", "fixed_widths": ""}
    known["augment_rate"], known["prior_rate"] = (fit.hyper.lr_range(kind)[0] for kind in LEARNED)
    shared = [
        inspect.Parameter(
            part.name, inspect.Parameter.KEYWORD_ONLY, annotation=part.type, default=known.get(part.name, part.default)
        )
        for part in fields(RunFlags)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        *own, last = inspect.signature(command).parameters.values()

        @wraps(command)
        def parsed(**values: Any) -> None:
            flags = RunFlags(**{part.name: values.pop(part.name) for part in shared})
            command(**values, **{last.name: flags})

        parsed.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        parsed.__annotations__ = {part.name: part.annotation for part in (*own, *shared)}
        return parsed

    return decorate


def settings(flags: RunFlags, base: ExperimentConfig) -> ExperimentConfig:
    """The settings of a run: those of the flags, and what they do not name as in `base`."""
    given = {part.name: getattr(flags, part.name) for part in fields(RunFlags)} | {
        "size": flags.size or None,
        "columns": _columns(flags.columns),
        "judge_columns": _columns(flags.judge_columns),
        "baselines": tuple(dict.fromkeys(name.strip() for name in flags.baselines.split(",") if name.strip())),
        "fixed_widths": _widths(flags.fixed_widths),
    }
    shown = {part.name for part in fields(RunFlags) if part.default is MISSING}
    for kind in LEARNED:  # left as it is, perhaps at the common learning rate
        if given[f"{kind}_rate"] == base.fit.hyper.lr_range(kind)[0]:
            shown.remove(f"{kind}_rate")
    return base.replace(**{GROUPED.get(name, name): value for name, value in given.items() if name in shown})


def _parts() -> dict[str, list[str]]:
    return {flag: name.split(".") for flag, name in GROUPED.items()}


def _columns(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _widths(text: str) -> dict[str, float]:
    """Widths by name, from name=number joined by commas."""
    widths = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        try:
            widths[name.strip()] = float(number)
        except ValueError as error:
            raise CovaryError(f"a width is name=number, such as rotation=1.57; '{part}' came.") from error
    return widths
