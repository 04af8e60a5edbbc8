"""Trackers of experiments: one protocol, the callback that feeds it during a fit, and trackers by name."""

import base64
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from .._text import require_choice
from ..augment import Augmentation
from ..batches import IndexedBatch
from ..config import FitConfig
from ..records import Epoch, Evidence, Pictures, RunRecord
from ..records.words import flat_settings
from ..training import Callback
from ..training.pictures import pictures_of
from ..training.schedule import cosine, hyper_progress, warmth

__all__ = ["Tracker", "Tracking", "tracker_of"]

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
TRACKERS = {"tensorboard": "TensorBoardTracker", "wandb": "WandbTracker", "mlflow": "MlflowTracker"}
Image = np.ndarray[Any, np.dtype[np.uint8]]
GAP = 2  # pixels between the images of a sheet


@runtime_checkable
class Tracker(Protocol):
    """A place where a run is logged. Any object with these methods is one.

    Example:
        >>> from covary.integrations.tracking import Tracker, Tracking
        >>> class Printed:
        ...     def log_config(self, config): print(len(config) > 10)
        ...     def log_scalars(self, scalars, step): print(step, sorted(scalars)[:1])
        ...     def log_image(self, name, image, step): pass
        ...     def close(self): print("closed")
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=1,
        ...                  callbacks=[Tracking(Printed())])
        True
        1 ['evidence/log_evidence']
        closed
    """

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Log the settings of the run, by their flat names."""
        ...

    def log_scalars(self, scalars: Mapping[str, float], step: int) -> None:
        """Log numbers by name, at an epoch."""
        ...

    def log_image(self, name: str, image: Image, step: int) -> None:
        """Log an image (H, W, 3) of bytes, at an epoch."""
        ...

    def close(self) -> None:
        """Write what is buffered and end the run."""
        ...


class Tracking(Callback):
    """A callback of `covary.fit` that logs settings, numbers and images, and closes the tracker at the end.

    Numbers of each epoch are the log-likelihood per datum, the log evidence in its terms, widths, the prior's
    precisions, and the learning rates of weights and hyperparameters.

    Arguments:
        tracker: Where to log; `tracker_of` makes one by name.
        config: The settings to log; None for those of the fit.
        augment: The augmentation, to log what it does to images as it is learned.
        images: The images (N, C, H, W) that show it, about six.
        close: Whether the tracker is closed when the fit ends; else the caller closes it.

    Example:
        >>> import tempfile
        >>> from covary.integrations.tracking import Tracking, tracker_of
        >>> tracking = Tracking(tracker_of("tensorboard", tempfile.mkdtemp()))
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=2, callbacks=[tracking])
    """

    def __init__(
        self,
        tracker: Tracker,
        config: Mapping[str, Any] | None = None,
        *,
        augment: Augmentation | None = None,
        images: Tensor | None = None,
        close: bool = True,
    ) -> None:
        self.tracker, self.settings, self.close = tracker, config, close
        self.augment, self.images = augment, images

    def on_fit_start(self, config: FitConfig) -> None:
        """Log the settings."""
        self.config = config
        self.tracker.log_config(flat_settings(config.as_dict()) if self.settings is None else self.settings)

    def on_epoch(self, epoch: Epoch) -> None:
        """Log the numbers of an epoch, and the images under the augmentation after it."""
        self.tracker.log_scalars(scalars_of(epoch) | learning_rates(epoch.epoch, self.config), epoch.epoch)
        if self.augment is None or self.images is None:
            return
        index = torch.arange(len(self.images), device=self.images.device)
        pictures = pictures_of(self.augment, IndexedBatch(self.images, index, index), self.config.seed)
        if pictures is not None:
            self.tracker.log_image("augmentation", sheet_of(pictures), epoch.epoch)

    def on_fit_end(self) -> None:
        """Close the tracker."""
        if self.close:
            self.tracker.close()


def scalars_of(epoch: Epoch) -> dict[str, float]:
    """Numbers of an epoch by name, without those that it does not have."""
    found = {"log_likelihood": epoch.log_likelihood, "seconds": epoch.seconds}
    found |= {f"widths/{name}": width for name, width in epoch.widths.items()}
    found |= {f"precisions/{name}": precision for name, precision in epoch.precisions.items()}
    if epoch.evidence is not None:
        found |= _terms("hyper_step", epoch.evidence)
    return found | ({} if epoch.evaluated is None else _terms("evidence", epoch.evaluated))


def learning_rates(epoch: int, config: FitConfig) -> dict[str, float]:
    """Learning rates at the end of an epoch, of a schedule that begins after the burn-in for hyperparameters.

    That of weights is before it is scaled to the size of each tensor, where the settings say so.
    """
    progress = min(epoch / config.epochs, 1.0)
    weights = warmth(epoch, config) * cosine(config.weights.lr, config.weights.lr_min, progress)
    rates = {"lr/weights": weights}
    if epoch > (config.hyper.burn_in or 0):
        done = min(max(hyper_progress(epoch, config, None), 0.0), 1.0)
        kinds: tuple[Literal["augment", "prior", "likelihood"], ...] = ("augment", "prior", "likelihood")
        rates |= {f"lr/{kind}": cosine(*config.hyper.lr_range(kind), done) for kind in kinds}
        if config.hyper.width_optimizer == "natural" and config.hyper.estimator in ("running", "two_pass"):
            rates["lr/augment"] = cosine(*config.hyper.width_lr_range, done)
    return rates


def log_run(tracker: Tracker, record: RunRecord) -> None:
    """Log what is known at the end of a run: test metrics, and images under the learned augmentation."""
    last = record.history[-1].epoch if record.history else 0
    if record.test is not None:
        metrics = {"accuracy": record.test.accuracy, "nll": record.test.nll, "rmse": record.test.rmse}
        tracker.log_scalars({f"test/{name}": value for name, value in metrics.items() if value is not None}, last)
    if record.samples is not None:
        tracker.log_image("learned augmentation", sheet_of(record.samples), last)


def sheet_of(pictures: Pictures) -> Image:
    """One image (H, W, 3) of all pictures: a row for each datum, its original first, then versions of it."""
    rows, columns, channels, height, width = pictures.shape
    values = np.frombuffer(base64.b64decode(pictures.pixels), dtype=np.uint8).reshape(pictures.shape)
    values = np.repeat(values, 3, axis=2) if channels == 1 else values
    sheet = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), 255, dtype=np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + GAP), column * (width + GAP)
            sheet[top : top + height, left : left + width] = values[row, column].transpose(1, 2, 0)
    return sheet


def tracker_of(name: TrackerName | str, folder: str | Path, title: str = "covary") -> Tracker:
    """Tracker of a library by its name, which writes below a folder and never to a network.

    Arguments:
        name: "tensorboard", "wandb" (offline) or "mlflow" (a local file store).
        folder: The folder to write to.
        title: The name of the project or experiment.

    Example:
        >>> import tempfile
        >>> from covary.integrations.tracking import tracker_of
        >>> tracker = tracker_of("tensorboard", tempfile.mkdtemp())
        >>> tracker.log_scalars({"widths/rotation": 0.3}, step=1)
        >>> tracker.close()
    """
    return require_tracker(name)(Path(folder), title)


def require_tracker(name: TrackerName | str) -> Callable[[Path, str], Tracker]:
    """Function that makes a tracker of that name; raise an error for another name, or if its library is missing."""
    require_choice("a tracker", name, TRACKERS)
    return getattr(import_module(f".{name}", __package__), TRACKERS[name])


def _terms(prefix: str, evidence: Evidence) -> dict[str, float]:
    names = ("log_evidence", "log_likelihood", "log_prior", "log_volume")
    return {f"{prefix}/{name}": getattr(evidence, name) for name in names}
