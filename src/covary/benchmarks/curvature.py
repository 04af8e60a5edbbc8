"""KFAC factors of the CNN of paper 1: time and memory of a factor pass against a training pass.

500 images of 28 × 28, S = 11 transformed copies of each. A training pass is forward and backward of the
averaged negative log-likelihood over the same N × S images in the same batches.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import data
from ..augment import Affine2d
from ..curvature import kfac
from ..likelihoods import Categorical
from ..linalg import Block
from ..networks import Averaged, cnn
from .measure import Pass, alternate, peak_memory

__all__ = ["curvature"]

NUM_DATA, NUM_SAMPLES = 500, 11
SIZES = ((NUM_SAMPLES, NUM_DATA), (2 * NUM_SAMPLES, NUM_DATA // 2))  # (S, batch): the same S × batch twice


def curvature(repeats: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rows of the training pass and of the factor pass with one sketch and with exact columns, for both S × batch."""
    rows = []
    for num_samples, batch_size in SIZES:
        build = partial(build_passes, num_samples, batch_size)
        passes = build()
        seconds = alternate(passes, repeats, progress)
        for name in passes:
            progress(f"memory of {name}")
            memory = peak_memory(build, name)
            rows.append(
                {
                    "workload": f"cnn, S={num_samples}, batch {batch_size}",
                    "pass": name,
                    "columns": {"factors, one sketch": 1, "factors, exact": "exact"}.get(name),
                    "seconds": seconds[name],
                    "ratio": seconds[name] / seconds["training"],
                    "peak_mb": memory.peak_mb,
                    "pass_mb": memory.pass_mb,
                }
            )
    return rows


def build_passes(num_samples: int, batch_size: int) -> dict[str, Pass]:
    """The passes over the same data, network and batches."""
    images = data.load("mnist-mini")
    x, y = images.x_train[:NUM_DATA], images.y_train[:NUM_DATA]
    network = Averaged(cnn(generator=torch.Generator().manual_seed(0)).to(x), Affine2d(initial_width=0.1), num_samples)
    return {
        "training": partial(_training_pass, network, x, y, batch_size),
        "factors, one sketch": partial(_factor_pass, network, x, y, batch_size, 1),
        "factors, exact": partial(_factor_pass, network, x, y, batch_size, "exact"),
    }


def _batches(num_data: int, batch_size: int) -> Iterator[Tensor]:
    yield from torch.arange(num_data).split(batch_size)


def _training_pass(network: Averaged, x: Tensor, y: Tensor, batch_size: int) -> None:
    weights = list(network.network.parameters())
    for index in _batches(len(x), batch_size):
        with torch.no_grad():
            noise = network.augment.sample_noise(index, network.num_samples, seed=0)
            copies = network.augment.apply(x[index], noise)
        outputs = network.network(copies.flatten(0, 1)).unflatten(0, (-1, network.num_samples)).mean(1)
        torch.autograd.grad(nn.functional.cross_entropy(outputs, y[index], reduction="sum"), weights)


@torch.no_grad()
def _factor_pass(network: Averaged, x: Tensor, y: Tensor, batch_size: int, columns: Any) -> Block:
    total: Block | None = None
    for index in _batches(len(x), batch_size):
        generator = torch.Generator().manual_seed(0)
        batch = (x[index], y[index])
        part = kfac(network, Categorical(), batch, columns=columns, generator=generator, index=index)
        total = part if total is None else total.accumulate(part)
    assert total is not None
    return total
