"""Images, settings and a record small enough for a test."""

from pathlib import Path

import numpy as np
import torch

from covary.config import ExperimentConfig
from covary.data import Dataset
from training_models import PLAIN

SETTINGS = PLAIN.replace(epochs=3, hyper={"burn_in": 1}, weights={"batch_size": 15}, evaluation={"num_evaluations": 1})


def bars(num_train: int = 30, num_test: int = 10) -> Dataset:
    """Images of 6×6 pixels in two classes: bars that lie and bars that stand."""
    generator = torch.Generator().manual_seed(0)
    x = 0.3 * torch.rand(num_train + num_test, 1, 6, 6, generator=generator, dtype=torch.float32)
    y = torch.arange(len(x)) % 2
    x[y == 1, :, 2:4] += 0.6
    x[y == 0, :, :, 2:4] += 0.6
    return Dataset(x[:num_train], y[:num_train], x[num_train:], y[num_train:], "bars", ("lying", "standing"))


def config(folder: Path, **changes) -> ExperimentConfig:
    """Settings for these images in an archive in the folder."""
    data = bars()
    path = folder / "bars.npz"
    if not path.exists():
        parts = {"x_train": data.x_train, "y_train": data.y_train, "x_test": data.x_test, "y_test": data.y_test}
        np.savez(path, **{name: tensor.numpy() for name, tensor in parts.items()})
    chosen = {"network": "mlp:4", "num_samples": 2, "dtype": "float64", "fit": SETTINGS} | changes
    return ExperimentConfig(data=str(path), **chosen)
