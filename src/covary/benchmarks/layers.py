"""A hyper step against a training pass for the relaxed networks of paper 2: log Z and all prior precisions.

All N data in both passes, digits in random colors, 3 × 32 × 32, in the same batches: CONV and F-FC+CONV at α = 10,
F-FC+CONV+GCONV at α = 2. `reach` is the ratio that each pass has to stay below; `growth_mb` is how far its memory
exceeds that of the training pass, and `growth_reach_mb` what that has to stay below. The last rows compare
`FactoredDense` with sums over all axes written by hand.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .. import data
from .._types import Probes, Progress
from ..batches import as_batches
from ..curvature import Curvature
from ..hypergrad import HyperGradient, two_pass
from ..layers import FactoredDense
from ..models import Model
from ..networks import relaxed_network
from ..priors import Prior
from .measure import Pass, alternate, peak_memory, portion

IMAGE = (3, 32, 32)
# Shapes of the layers of F-FC at α = 10, in and out.
FACTORED = (
    ((3, 32, 32), (10, 32, 32)),
    ((10, 32, 32), (20, 16, 16)),
    ((20, 16, 16), (20, 16, 16)),
    ((20, 16, 16), (40, 8, 8)),
    ((40, 8, 8), (40, 8, 8)),
    ((40, 8, 8), (80, 4, 4)),
    ((80, 4, 4), (80, 2, 2)),
    ((80, 2, 2), (160, 1, 1)),
)
FACTORED_REACH = 1.5


class Setting(NamedTuple):
    """A network, its data, and the bars of its hyper steps: ratios by pass, and of one sketch the growth of memory."""

    variant: str
    alpha: int
    num_data: int
    batch_size: int
    reach: Mapping[str, float]
    growth_reach_mb: float | None = None


PASSES: dict[str, Probes | None] = {"training": None, "hyper step, one sketch": 1, "hyper step, exact": "exact"}
SETTINGS = (
    Setting("conv", 10, 256, 256, {"hyper step, one sketch": 2.2, "hyper step, exact": 8}),
    Setting("f-fc+conv", 10, 256, 256, {"hyper step, one sketch": 5, "hyper step, exact": 14}, 1536),
    Setting("f-fc+conv", 10, 2000, 250, {"hyper step, one sketch": 3}, 1536),
    Setting("f-fc+conv+gconv", 2, 256, 256, {"hyper step, one sketch": 4}),
)


class Task(NamedTuple):
    """A relaxed network with its data; one prior precision per tensor to learn."""

    network: nn.Module
    prior: Prior
    x: Tensor
    y: Tensor
    batch_size: int


def measure_layers(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """Rows of the training pass and the hyper steps of each network, then of `FactoredDense` and sums by hand."""
    rows: list[dict[str, Any]] = []
    for number, setting in enumerate(SETTINGS):
        rows += _hyper_rows(setting, repeats, portion(progress, number, len(SETTINGS) + 1))
    return rows + _factored_rows(repeats, portion(progress, len(SETTINGS), len(SETTINGS) + 1))


def _hyper_rows(setting: Setting, repeats: int, progress: Progress) -> list[dict[str, Any]]:
    build = partial(build_passes, setting)
    passes = build()
    seconds = alternate(passes, repeats, progress)
    workload = f"{setting.variant}, α={setting.alpha}, N={setting.num_data}"
    rows, training_mb = [], 0.0
    for name in passes:
        progress(f"{workload}: memory and bias of {name}", 1.0)
        memory = peak_memory(build, name)
        training_mb = memory.pass_mb if name == "training" else training_mb
        row: dict[str, Any] = {
            "workload": workload,
            "pass": name,
            "columns": PASSES[name],
            "seconds": seconds[name],
            "ratio": seconds[name] / seconds["training"],
            "reach": setting.reach.get(name),
            "peak_mb": memory.peak_mb,
            "growth_mb": memory.pass_mb - training_mb,
            "growth_reach_mb": setting.growth_reach_mb if PASSES[name] == 1 else None,
        }
        rows.append(row | (_sketch_bias(_task(setting)) if PASSES[name] == 1 else {}))
    return rows


def build_passes(setting: Setting) -> dict[str, Pass]:
    """The training pass and the hyper steps that have a bar, over the same data, network and batches."""
    task = _task(setting)
    passes: dict[str, Pass] = {"training": partial(_training_pass, task)}
    for name in setting.reach:
        columns = PASSES[name]
        assert columns is not None, "only hyper steps have bars"
        passes[name] = partial(_hyper_step, task, columns)
    return passes


def _task(setting: Setting) -> Task:
    generator = torch.Generator().manual_seed(0)
    digits = data.load("mnist-mini")
    x, y = digits.x_train[: setting.num_data], digits.y_train[: setting.num_data]
    colors = torch.rand(len(x), IMAGE[0], 1, 1, generator=generator).to(x)
    images = colors * nn.functional.pad(x, (2, 2, 2, 2))
    network = relaxed_network(setting.variant, setting.alpha, IMAGE, 10, generator=generator).to(x)
    return Task(network, Prior(network), images, y, setting.batch_size)


def _training_pass(task: Task) -> None:
    """Forward and backward of the mean negative log-likelihood."""
    weights = list(task.network.parameters())
    for x, y in zip(task.x.split(task.batch_size), task.y.split(task.batch_size), strict=True):
        torch.autograd.grad(nn.functional.cross_entropy(task.network(x), y), weights)


def _hyper_step(task: Task, columns: Probes) -> HyperGradient:
    """Log Z and its gradient with respect to every prior precision."""
    images = as_batches((task.x, task.y), task.batch_size)
    return two_pass(Model(task.network, prior=task.prior), images, Curvature(probes=columns))


def _sketch_bias(task: Task) -> dict[str, Any]:
    """The relative change by one sketch of log|H + δ| where δ = 1, and of the gradient along its exact direction."""
    (exact, truth), (sketch, estimate) = (_logdet_and_gradient(task, columns) for columns in ("exact", 1))
    return {
        "logdet_bias": float(sketch / exact - 1),
        "gradient_bias": float((estimate @ truth) / (truth @ truth) - 1),
    }


def _logdet_and_gradient(task: Task, columns: Probes) -> tuple[Tensor, Tensor]:
    step = _hyper_step(task, columns)
    (gradient,) = step.values()
    return task.prior.num_params * math.log(2 * math.pi) - 2 * step.terms.log_volume, gradient


def _factored_rows(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    passes = build_factored_passes(FACTORED, 256)
    seconds = alternate(passes, repeats, progress)
    progress("FactoredDense", 1.0)
    return [
        {
            "workload": "layers of F-FC, α=10, N=256",
            "pass": name,
            "columns": None,
            "seconds": seconds[name],
            "ratio": seconds[name] / seconds["by hand"],
            "reach": FACTORED_REACH if name == "FactoredDense" else None,
            "peak_mb": None,
        }
        for name in passes
    ]


def build_factored_passes(shapes: Sequence[tuple[Sequence[int], Sequence[int]]], num_data: int) -> dict[str, Pass]:
    """Forward and backward through each layer, all gradients, by the layer and by hand."""
    generator = torch.Generator().manual_seed(0)
    layers = [FactoredDense(*pair, generator=generator) for pair in shapes]
    inputs = [torch.randn(num_data, *pair[0], generator=generator).requires_grad_() for pair in shapes]
    return {"by hand": partial(_by_hand, layers, inputs), "FactoredDense": partial(_by_layer, layers, inputs)}


def _by_layer(layers: Sequence[FactoredDense], inputs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    return [
        torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
        for layer, x in zip(layers, inputs, strict=True)
    ]


def _by_hand(layers: Sequence[FactoredDense], inputs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    return [
        torch.autograd.grad(_factored_by_hand(layer, x).square().sum(), [x, *layer.parameters()])
        for layer, x in zip(layers, inputs, strict=True)
    ]


def _factored_by_hand(layer: FactoredDense, x: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _"]:
    read = torch.einsum("cox,ncx->noc", layer.read.weight, x.flatten(2)) + layer.read.bias[:, None]
    return torch.einsum("oxc,noc->nox", layer.write.weight, read) + layer.write.bias
