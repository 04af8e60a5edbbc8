"""MLflow as a tracker, with a local file store, for `mlflow ui --backend-store-uri FOLDER`."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import MissingLibraryError
from .tracking import Image

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it is read when MLflow is imported, and sends otherwise

try:
    import mlflow
    from mlflow.entities import Metric, Param
except ImportError as error:
    raise MissingLibraryError("mlflow", "mlflow") from error

__all__: list[str] = []  # `tracking.tracker_of` makes the tracker

ALLOWED = "MLFLOW_ALLOW_FILE_STORE"
LONGEST = 500  # characters of a parameter, in every version of MLflow


class MlflowTracker:
    """A run of MLflow in a local file store. MLflow's global state, such as its active run, is not touched.

    Arguments:
        folder: The folder of the store.
        title: The name of the experiment.
    """

    def __init__(self, folder: Path, title: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with _file_store_allowed():
            self.client = mlflow.MlflowClient(tracking_uri=folder.resolve().as_uri())
        found = self.client.get_experiment_by_name(title)
        experiment = self.client.create_experiment(title) if found is None else found.experiment_id
        self.run_id = self.client.create_run(experiment).info.run_id

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings as parameters."""
        params = [Param(_allowed(name), str(value)[:LONGEST]) for name, value in config.items()]
        self.client.log_batch(self.run_id, params=params)

    def log_scalars(self, scalars: Mapping[str, float], step: int) -> None:
        """Write the numbers of a step as metrics."""
        now = int(1000 * time.time())
        metrics = [Metric(_allowed(name), value, now, step) for name, value in scalars.items()]
        self.client.log_batch(self.run_id, metrics)

    def log_image(self, name: str, image: Image, step: int) -> None:
        """Write an image as an artifact, NAME-STEP.png."""
        self.client.log_image(self.run_id, image, f"{name}-{step}.png")

    def close(self) -> None:
        """End the run."""
        self.client.set_terminated(self.run_id)


def _allowed(name: str) -> str:
    """A name with "_" for what MLflow refuses, such as the brackets of "rotation[6]"."""
    return re.sub(r"[^/\w.\- ]", "_", name)


@contextmanager
def _file_store_allowed() -> Iterator[None]:
    """Let MLflow make a file store, which its newer versions refuse unless this variable is set."""
    before = os.environ.get(ALLOWED)
    os.environ[ALLOWED] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ALLOWED]
        else:
            os.environ[ALLOWED] = before
