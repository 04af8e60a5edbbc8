"""Predictions of a saved run: what `covary predict` writes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from ..data import load_images
from ..data.dataset import require_memory
from ..errors import StructureError
from ..likelihoods import Categorical
from ..networks import build
from ..networks.named import outline
from ..records import RunRecord, read_run
from ..references import function_of
from ..training import Run, load
from ..training.inputs import num_outputs, trained_shape
from ..training.record import TEST_BATCH
from ..training.storage import has_own_network
from .predict_targets import require_finite, require_no_table, target_predictions
from .resources import require_sample_memory
from .restore import NOTHING, Replacements

_BYTES_PER_WEIGHT = 4


def predictions(
    folder: Path,
    data: str,
    *,
    given: Replacements = NOTHING,
    num_samples: int | None = None,
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
    probabilities = _probabilities(run, images.x, num_samples)
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


def _probabilities(run: Run, x: Tensor, num_samples: int | None) -> Tensor:
    kind = next(run.network.parameters()).dtype
    return run.predict_proba(x.to(kind), num_samples).double()
