"""The options that `discover` and `layers` share: what a run reads, how it trains, where it writes.

One record holds them all. `with_run_flags` puts its fields behind the options of a command's own, with the defaults of
that command; `settings` turns the record into the run's settings.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import BASELINES, TRAIN_AUGMENTS, ExperimentConfig, FitConfig
from ..data import TASKS
from ..errors import CovaryError
from ..experiments import AUGMENTATIONS
from .output import Json


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
    words = {"columns": str(fit.columns), "judge_columns": str(fit.judge_columns), "baselines": "", "fixed_widths": ""}
    known = defaults.as_dict() | words
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
    fit, whole = (
        {part.name: given[part.name] for part in fields(kind) if part.name in given}
        for kind in (FitConfig, ExperimentConfig)
    )
    return replace(base, **whole, fit=replace(base.fit, **fit))


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
