"""Predictions of a saved run, of classes or of real targets: what `covary predict` writes."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from .._types import Resampling
from ..config import ExperimentConfig
from ..data import Dataset, load_images
from ..data.dataset import require_memory
from ..data.sets import Images, load_unlabeled
from ..data.tables import read_columns
from ..errors import DataError, StructureError
from ..likelihoods import Categorical
from ..models import Model
from ..networks import build
from ..networks.named import outline
from ..posterior import GaussianPrediction, Laplace
from ..records import RunRecord, read_run
from ..references import function_of
from ..training import Run, load
from ..training.ascent import evaluated_curvature
from ..training.held_out import TEST_BATCH
from ..training.inputs import num_outputs, require_inputs, trained_shape
from ..training.schedule import TEST, filled_in, seed_for
from ..training.storage import has_own_network
from .build import reading_of
from .resources import require_sample_memory
from .restore import NOTHING, Replacements, restored

_BYTES_PER_WEIGHT = 4


def predictions(
    folder: Path, data: str, *, given: Replacements = NOTHING, num_samples: int | None = None
) -> list[dict[str, str | float]]:
    """One row per image: its name, the predicted class, its probability, and the entropy of all of them in nats.

    Of a regression: a row per datum, with mean and standard deviation of each target.

    Arguments:
        folder: The folder of a run.
        data: The images, as for `covary.data.load_images`; those of a folder are resampled to the size of the run.
        given: What to use in place of what the record names: the training data, for a regression alone; the
            directory to look in first for data sets; "package.module:function" that makes a network of the user's own,
            called with (image_shape, num_outputs) or without arguments, as its signature allows.
        num_samples: Augmentation samples per image; None for as many as in training.
    """
    record = read_run(folder)
    if record.config.get("task") == "regression":
        return target_predictions(record, folder, data, given, num_samples)
    if given.data is not None:
        raise StructureError(
            f"--{given.option} is for a regression, and the run in '{folder}' has classes. Leave it out."
        )
    require_no_table(data, folder, trained_shape(record))
    side = _side(record) if Path(data).is_dir() else None  # files may have any size, arrays are taken as they are
    images = load_images(data, given.data_dir, record.config.get("size") or side)
    shape = trained_shape(record) or tuple(images.x.shape[1:])
    run = saved_run(folder, shape, given.network, given.trust_code)
    if not isinstance(run.likelihood, Categorical):
        kind = type(run.likelihood).__name__
        raise StructureError(f"Expected a classification run, got the likelihood {kind}. Use run.predict in Python.")
    require_sample_memory(run.network, images.x[:TEST_BATCH].shape, num_samples)
    x = images.x.to(next(run.network.parameters()).dtype)
    probabilities = run.predict_proba(x, num_samples).double()
    require_finite(probabilities, images.names, folder)
    best, classes = probabilities.max(1)
    entropies = torch.special.entr(probabilities).sum(1)
    names = record.class_names or [str(number) for number in range(probabilities.shape[1])]
    rows = zip(images.names, classes.tolist(), best.tolist(), entropies.tolist(), strict=True)
    return [
        {"image": image, "class": names[label], "probability": probability, "uncertainty": entropy}
        for image, label, probability, entropy in rows
    ]


def _side(record: RunRecord) -> int | None:
    """The side of the run's images, as far as its record shows, and where they are square."""
    shape = trained_shape(record)
    return shape[1] if len(shape) == 3 and shape[1] == shape[2] else None


def saved_run(folder: Path, image_shape: tuple[int, ...], network: str | None = None, trust_code: bool = False) -> Run:
    """A saved run, with a network of the user's own where it has one.

    Arguments:
        folder: The folder of a run, or its run.json.
        image_shape: The shape of an image, with which a function that makes a network is called.
        network: "package.module:function" that makes the network, for a run with a network of the user's own; called
            with (image_shape, num_outputs) or without arguments, as its signature allows.
        trust_code: Whether the function that the record names may make the network, where none is passed.
    """
    record = read_run(folder)
    if network is None and has_own_network(record):
        network = str(record.config.get("network", "package.module:function"))
        if not trust_code:
            raise StructureError(
                f"The run has a network of your own. Pass `--network {network:.200}`, which makes it, or --trust-code "
                "if you trust the record."
            )
    made = None if network is None else _maker(network, record, image_shape)
    return load(folder if folder.is_dir() else folder.parent, made)


def _maker(reference: str, record: RunRecord, shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    """A function that makes the user's network, from one of (image_shape, num_outputs) or without arguments.

    Where both can be called, that of a command's run is called as the command did, that of another run without.
    """
    empty = outline(reference, shape, 1)
    if empty is not None:  # a network of ours, by name
        num_bytes = _BYTES_PER_WEIGHT * sum(weight.numel() for weight in empty.parameters())
        require_memory(f"The network '{reference:.60}'", num_bytes)
        return partial(build, reference, shape, num_outputs(record), 0)
    expected = "a function of (image_shape, num_outputs), or one without arguments, that makes a network"
    ways: list[tuple[str, ...]] = [(), ("image_shape", "num_outputs")]
    for arguments in reversed(ways) if record.class_names else ways:
        try:
            function = function_of(reference, arguments, expected, StructureError)
        except StructureError as error:
            failure = error
            continue
        if arguments or isinstance(function, nn.Module):
            return partial(build, reference, shape, num_outputs(record), 0)
        return cast(Callable[[], nn.Module], function)
    raise failure


def target_predictions(
    run: RunRecord, folder: Path, data: str, given: Replacements, num_samples: int | None = None
) -> list[dict[str, str | float]]:
    """One row per datum: its name, and mean and standard deviation of each target, in its unit.

    The standard deviation is that of a new observation: of the noise and, by the Laplace posterior, of the weights. The
    posterior needs a pass over the training data, which the record names unless others are given.

    Arguments:
        folder: The folder of the run, or its run.json.
        data: What to predict: a `.csv` with the columns of the training data, in any order, an `.npz`, or another
            source as for `covary.data.load_images`.
        given: What to use in place of what the record names.
        num_samples: Augmentation samples per datum; None for as many as in training.
    """
    require_no_table(data, folder, trained_shape(run))
    config, task, model = restored(run, folder, given, same_data=True)
    inputs = _inputs(data, config, task.dataset, given.data_dir)
    require_inputs(inputs.x, task.dataset.x_train.shape[1:], task.dataset.feature_names)
    require_sample_memory(model.network, inputs.x[:TEST_BATCH].shape, num_samples)
    found = _predicted(model, task.dataset, inputs.x, config, num_samples)
    require_finite(found.mean + found.variance, inputs.names, folder)
    names = task.dataset.target_names or tuple(f"target_{number}" for number in range(found.mean.shape[1]))
    means, deviations = found.mean.double().tolist(), found.variance.double().sqrt().tolist()
    kind = "row" if task.dataset.x_train.ndim == 2 else "image"
    rows: list[dict[str, str | float]] = []
    for label, mean, deviation in zip(inputs.names, means, deviations, strict=True):
        row: dict[str, str | float] = {kind: label}
        for name, value, spread in zip(names, mean, deviation, strict=True):
            row |= {f"{name}_mean": value, f"{name}_std": spread}
        rows.append(row)
    return rows


def require_no_table(data: str, folder: Path, shape: Sequence[int]) -> None:
    """Raise `DataError` for a table where a run predicts images."""
    if len(shape) == 3 and Path(data).suffix.lower() == ".csv":
        raise DataError(
            f"The run in '{folder}' predicts images of {shape[2]}×{shape[1]} pixels, got the table '{data}'. Pass a "
            "folder of images, or an .npz."
        )


def require_finite(predicted: Tensor, names: Sequence[str], folder: Path) -> None:
    """Raise `DataError` that names the first datum whose prediction (N, ...) is not finite."""
    wrong = (~predicted.isfinite()).flatten(1).any(1)
    if wrong.any():
        raise DataError(
            f"The run in '{folder}' predicts numbers that are not finite for '{names[int(wrong.nonzero()[0])]}'. Its "
            "weights are not finite, or the values of this datum are too large: compare them with the training data."
        )


def _inputs(data: str, config: ExperimentConfig, dataset: Dataset, data_dir: str | None) -> Images:
    """What to predict, in the layout and type of the training data."""
    path, like = Path(data), dataset.x_train
    if like.ndim == 2 and path.suffix.lower() == ".csv":
        x = read_columns(path, dataset.feature_names or like.shape[1], dataset.target_names)
        return Images(x.to(like.dtype), tuple(map(str, range(len(x)))))
    found = load_unlabeled(data, data_dir, reading_of(config))
    return found._replace(x=found.x.to(like.dtype))


def _predicted(
    model: Model, dataset: Dataset, x: Tensor, config: ExperimentConfig, num_samples: int | None
) -> GaussianPrediction:
    network, fit = model.network, filled_in(config.fit, len(dataset.x_train))
    if isinstance(network, Resampling) and num_samples is not None:
        network = network.with_samples(num_samples)
    whole, seed = Model(network, model.likelihood, model.prior), seed_for(fit.seed, TEST)
    posterior = Laplace(whole, dataset.train, evaluated_curvature(fit), seed=seed)
    means, variances = [], []
    for part in x.split(TEST_BATCH):
        found = posterior.predict(part)
        assert isinstance(found, GaussianPrediction), "a regression has a Gaussian likelihood"
        means.append(found.mean)
        variances.append(found.variance)
    return GaussianPrediction(torch.cat(means), torch.cat(variances))
