"""Weights & Biases as a tracker, offline: a folder that `wandb sync` uploads when you decide to."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MissingLibraryError
from .tracking import Image

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it is read when wandb is imported, and sends otherwise

try:
    import wandb
except ImportError as error:
    raise MissingLibraryError("wandb", "wandb") from error

__all__: list[str] = []  # `tracking.tracker_of` makes the tracker


class WandbTracker:
    """A run of Weights & Biases that is written to a folder; nothing is sent, and a run of one's own stays apart.

    Arguments:
        folder: The folder, in which `wandb/offline-run-…` is made.
        title: The name of the project.
    """

    def __init__(self, folder: Path, title: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, save_code=False)
        self.run = wandb.init(project=title, dir=str(folder), mode="offline", reinit="create_new", settings=settings)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings."""
        self.run.config.update(dict(config))

    def log_scalars(self, scalars: Mapping[str, float], step: int) -> None:
        """Write the numbers of a step."""
        self.run.log(dict(scalars), step=step)

    def log_image(self, name: str, image: Image, step: int) -> None:
        """Write an image, as a file beside the run."""
        self.run.log({name: wandb.Image(image)}, step=step)

    def close(self) -> None:
        """Write what is buffered and end the run."""
        self.run.finish()
