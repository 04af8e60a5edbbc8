"""A fit for a process of its own that goes on where an earlier one was killed, and a log of its random draws."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TextIO

import torch
from safetensors.torch import save_file
from torch import Tensor

import covary
from covary.curvature import passes
from covary.training import hyper, loop
from training_models import RUNNING, averaged, everything, points

EPOCHS = 12


def session(folder: Path, out: Path, log: Path) -> None:
    """Write checkpoints to the folder, draws to the log as they are made, and the trained tensors to `out`."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    config, network = RUNNING.replace(epochs=EPOCHS, evaluation={"num_evaluations": 4}), averaged()
    with log.open("w") as lines:
        loop.permutation = logged(lines, "shuffle", loop.permutation)
        hyper.permutation = logged(lines, "subset", hyper.permutation)
        passes.rademacher = logged(lines, "sketch", passes.rademacher)
        network.augment.sample_noise = logged(lines, "noise", network.augment.sample_noise)
        run = covary.fit(
            network,
            points(),
            config,
            test=points(10, 7),
            checkpoints=covary.Checkpoints(folder, every=1, resume=True),
            callbacks=(),
        )
    widths = torch.tensor([list(epoch.widths.values()) for epoch in run.record.history])
    numbers = torch.tensor([run.record.evidence.log_evidence, run.record.test.nll, run.record.test.accuracy])
    save_file({**everything(run), "widths": widths, "numbers": numbers}, out)


def logged(lines: TextIO, name: str, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that draws, with a line for each result that is out before the result is used."""

    def drawn(*arguments, **options):
        result = draw(*arguments, **options)
        print(name, sha256(result.numpy().tobytes()).hexdigest(), file=lines, flush=True)
        return result

    return drawn
