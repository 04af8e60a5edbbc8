"""Predictions of a saved run for images: what `covary predict` writes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from ..data import load_images
from ..errors import DataError, StructureError
from ..likelihoods import Categorical
from ..networks import build
from ..records import RunRecord, read_run
from ..references import function_of
from ..training import Run, load


def predictions(
    folder: Path,
    data: str,
    *,
    data_dir: str | None = None,
    network: str | None = None,
    num_samples: int | None = None,
) -> list[dict[str, str | float]]:
    """One row per image: its name, the predicted class, its probability, and the entropy of all of them in nats.

    Arguments:
        folder: The folder of a run.
        data: The images, as for `covary.data.load_images`; resampled to the size of the run.
        data_dir: The directory to look in first for data sets.
        network: "package.module:function" that makes the network, for a run with a network of the user's own.
        num_samples: Augmentation samples per image; None for as many as in training.
    """
    record = read_run(folder)
    images = load_images(data, data_dir, record.config.get("size"))
    made = None if network is None else _maker(network, record, cast(tuple[int, int, int], tuple(images.x.shape[1:])))
    run = load(folder if folder.is_dir() else folder.parent, made)
    if not isinstance(run.likelihood, Categorical):
        kind = type(run.likelihood).__name__
        raise StructureError(f"Expected a classification run, got the likelihood {kind}. Use run.predict in Python.")
    probabilities = _probabilities(run, images.x, num_samples)
    best, classes = probabilities.max(1)
    entropies = torch.special.entr(probabilities).sum(1)
    names = record.class_names or [str(number) for number in range(probabilities.shape[1])]
    rows = zip(images.names, classes.tolist(), best.tolist(), entropies.tolist(), strict=True)
    return [
        {"image": image, "class": names[label], "probability": probability, "uncertainty": entropy}
        for image, label, probability, entropy in rows
    ]


def _maker(reference: str, record: RunRecord, shape: tuple[int, int, int]) -> Callable[[], nn.Module]:
    """A function that makes the user's network: as commands call it, or without arguments for a run made in Python."""
    if record.class_names:
        return partial(build, reference, shape, len(record.class_names), 0)
    expected = "a function that needs no arguments and returns the network"
    return cast(Callable[[], nn.Module], function_of(reference, (), expected, StructureError))


def _probabilities(run: Run, x: Tensor, num_samples: int | None) -> Tensor:
    kind = next(run.network.parameters()).dtype
    try:
        return run.predict_proba(x.to(kind), num_samples).double()
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"The network of the run cannot process images of shape {tuple(x.shape[1:])} ({reason}). Pass images of "
            "the size and number of channels that it was trained on."
        ) from error
