"""A hyper step against a training pass for the relaxed networks of paper 2: log Z and all prior precisions.

All N data in both passes, digits in random colors, 3 × 32 × 32, in the same batches: CONV and F-FC+CONV at α = 10,
F-FC+CONV+GCONV at α = 2. `reach` is the largest ratio that each pass may have; `growth_mb` is its memory beyond that of
the training pass, and `growth_reach_mb` the largest that this may be. The last rows compare `FactoredDense` with sums
over all axes written by hand.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .. import data
from .._types import Probes, Progress
from ..layers import FactoredDense
from ..models import Model
from ..networks import relaxed_network
from .evidence import hyper_step, probe_bias
from .measure import Pass, Workload, alternate, bench_row, peak_memory, portion, training_pass

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
    """A network, its data, and the bars of its hyper steps: ratios by pass, and memory growth with one probe."""

    variant: str
    alpha: int
    num_data: int
    batch_size: int
    reach: Mapping[str, float]
    growth_reach_mb: float | None = None


PASSES: dict[str, Probes | None] = {"training": None, "hyper step, one probe": 1, "hyper step, exact": "exact"}
SETTINGS = (
    Setting("conv", 10, 256, 256, {"hyper step, one probe": 2.2, "hyper step, exact": 8}),
    Setting("f-fc+conv", 10, 256, 256, {"hyper step, one probe": 5, "hyper step, exact": 14}, 1536),
    Setting("f-fc+conv", 10, 2000, 250, {"hyper step, one probe": 3}, 1536),
    Setting("f-fc+conv+gconv", 2, 256, 256, {"hyper step, one probe": 4}),
)


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
        one = PASSES[name] == 1
        row = bench_row(workload, name, PASSES[name], seconds, memory) | {
            "reach": setting.reach.get(name),
            "growth_mb": memory.pass_mb - training_mb,
            "growth_reach_mb": setting.growth_reach_mb if one else None,
        }
        rows.append(row | (probe_bias(_workload(setting)) if one else {}))
    return rows


def build_passes(setting: Setting) -> dict[str, Pass]:
    """The training pass and the hyper steps that have a bar, over the same data, network and batches."""
    workload = _workload(setting)
    passes: dict[str, Pass] = {"training": partial(training_pass, workload)}
    for name in setting.reach:
        probes = PASSES[name]
        assert probes is not None, "only hyper steps have bars"
        passes[name] = partial(hyper_step, workload, probes)
    return passes


def _workload(setting: Setting) -> Workload:
    generator = torch.Generator().manual_seed(0)
    digits = data.load("mnist-mini")
    x, y = digits.x_train[: setting.num_data], digits.y_train[: setting.num_data]
    colors = torch.rand(len(x), IMAGE[0], 1, 1, generator=generator).to(x)
    images = colors * nn.functional.pad(x, (2, 2, 2, 2))
    network = relaxed_network(setting.variant, setting.alpha, IMAGE, 10, generator=generator).to(x)
    return Workload(Model(network), images, y, setting.batch_size)


def _factored_rows(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    passes = build_factored_passes(FACTORED, 256)
    seconds = alternate(passes, repeats, progress)
    progress("FactoredDense", 1.0)
    return [
        bench_row("layers of F-FC, α=10, N=256", name, None, seconds)
        | {"reach": FACTORED_REACH if name == "FactoredDense" else None}
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
