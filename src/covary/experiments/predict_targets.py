"""Predictions of a saved regression: what `covary predict` writes of real targets."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from .._types import Resampling
from ..config import ExperimentConfig
from ..data import Dataset
from ..data.sets import Images, load_unlabeled
from ..data.tables import read_columns
from ..errors import DataError
from ..models import Model
from ..posterior import GaussianPrediction, Laplace
from ..records import RunRecord
from ..training.ascent import evaluated_curvature
from ..training.inputs import require_inputs, trained_shape
from ..training.record import TEST_BATCH
from ..training.schedule import TEST, filled_in, seed_for
from .build import reading_of
from .resources import require_sample_memory
from .restore import Replacements, restored


def target_predictions(
    run: RunRecord, folder: Path, data: str, given: Replacements, num_samples: int | None = None
) -> list[dict[str, str | float]]:
    """One row per datum: its name, and mean and standard deviation of each target, in its unit.

    The standard deviation is that of a new observation: of the noise and, by the Laplace posterior, of the weights. The
    posterior needs a pass over the training data, which the record names unless others are given.

    Arguments:
        run: The record.
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
    """Raise `DataError` for a table where a run predicts images.

    Arguments:
        data: What to predict.
        folder: The folder of the run.
        shape: The shape of a datum of its training data.
    """
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
