"""TensorBoard as a tracker: event files in a folder, for `tensorboard --logdir FOLDER`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MissingLibraryError
from .tracking import Image

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError as error:
    raise MissingLibraryError("tensorboard", "tensorboard") from error

__all__: list[str] = []  # `tracking.tracker_of` makes the tracker


class TensorBoardTracker:
    """Event files of TensorBoard in a folder, which is the title there; settings are a text."""

    def __init__(self, folder: Path, title: str) -> None:
        del title
        self.writer = SummaryWriter(str(folder))

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings as a text, in JSON."""
        lines = json.dumps(dict(config), indent=2, default=str).splitlines()
        self.writer.add_text("config", "\n".join(f"    {line}" for line in lines), 0)  # indented: a block of code

    def log_scalars(self, scalars: Mapping[str, float], step: int) -> None:
        """Write each number to a chart of its name."""
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)

    def log_image(self, name: str, image: Image, step: int) -> None:
        """Write an image."""
        self.writer.add_image(name, image, step, dataformats="HWC")

    def close(self) -> None:
        """Write what is buffered and close the files."""
        self.writer.close()
