"""The averaged network of a run as one program of `torch.export`, with fixed augmentation samples."""

import io
from pathlib import Path

import torch
from torch import Tensor

from .._files import write_named
from ..errors import DataError
from ..networks import Deployed
from .inputs import takes_tokens, trained_shape
from .run import Run
from .schedule import TEST, seed_for


def export_program(
    run: Run, path: str | Path, *, example: Tensor | None = None, num_samples: int | None = None
) -> Path:
    """Write the averaged network of a run as a program of `torch.export`, and return its path.

    `torch.export.load(path).module()` is the network in float32, for any number of data, without covary. The noise of
    the augmentation is a constant in it (`covary.networks.Deployed`).

    Arguments:
        run: The run.
        path: The file, such as model.pt2.
        example: Data of the shape of the inputs, (N, ...); by default floats of the shape in training.
        num_samples: The number of augmentation samples; None for as many as in training.

    Example:
        >>> import tempfile
        >>> from covary.training import export_program
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=2, callbacks=())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.export.load(export_program(run, f"{folder}/model.pt2")).module()(x).shape
        torch.Size([20, 2])
    """
    content = io.BytesIO()
    torch.export.save(deployed(run, num_samples).program(example_of(run, example)), content)
    write_named(Path(path), content.getvalue())
    return Path(path)


def deployed(run: Run, num_samples: int | None = None) -> Deployed:
    """The network of a run in float32 on the CPU, under the noise of its test metrics."""
    seed = seed_for(int(run.record.config["seed"]), TEST)
    return Deployed(run.network, num_samples, seed=seed).float().cpu()


def example_of(run: Run, given: Tensor | None = None) -> Tensor:
    """Data of the shape of a run's inputs, in float32 unless they are tokens: those given, or zeros."""
    tokens = takes_tokens(run.network)
    if given is not None:
        return (given if tokens else given.float()).cpu()
    shape = trained_shape(run.record)
    if tokens or not shape:
        what = "type" if shape else "shape"
        raise DataError(f"The record is without the {what} of the inputs. Pass some of the data as `example`.")
    return torch.zeros(1, *shape, dtype=torch.float32)
