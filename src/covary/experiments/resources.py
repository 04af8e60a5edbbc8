"""The resource estimate of a run: parameters, factors, bytes and seconds, before any work is done."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ..batches import as_batches
from ..config import ExperimentConfig, FitConfig
from ..curvature import coverage
from ..curvature.capture import capture
from ..curvature.coverage import require_independence
from ..curvature.jacobian_factors import OuterFactors
from ..curvature.passes import ROWS_AT_ONCE
from ..curvature.registry import KRON, largest_factor
from ..errors import StructureError
from ..layer_summary import relaxed_layers
from ..layers.sparse import AbstractSparse
from ..memory import available_memory
from ..networks import Averaged
from ..networks.images import require_images
from ..networks.named import outline
from ..priors import weights_of
from ..training.bounds import block_size
from ..training.hyper import data_per_step, hyper_step
from ..training.schedule import filled_in, hyper_steps_due
from ..training.state import initial_state
from ..training.steps import evaluate, weight_step
from .build import Task, model, prior_of

PROBE_DATA = 100
COPIES = 5  # of all weights: themselves, gradients, both of the optimizer's moments, the best state
SAMPLE_BYTES = 16  # of a value: the sample, the two coordinates that it is read from, and a copy, in single precision
OVERHEAD = 400 << 20  # the process with torch in it, before any tensor


@dataclass(frozen=True)
class ResourceEstimate:
    """The estimate of a run.

    Arguments:
        num_params: Weights.
        num_data: Training data.
        num_samples: Augmentation samples of each.
        factors: For each weight its name, the structure of its block, the number of blocks in that, the sizes of the
            factors of one, and the bytes of all.
        data_bytes: The data.
        weight_bytes: Weights, gradients, both of the optimizer's moments, the best state.
        factor_bytes: Factors with their eigenvectors and the cotangents.
        kernel_bytes: Kernels of all blocks, which the estimator "kernel" keeps for a hyper step.
        activation_bytes: The largest pass: a batch of weights' steps, or a part of a hyper step.
        total_bytes: The sum, with the process itself.
        available_bytes: What this machine has to spare now.
        epoch_seconds: One epoch of weight steps, from a probe.
        hyper_seconds: One hyper step, from a probe.
        evaluation_seconds: One evaluation, from a probe.
        seconds: The whole run, without baselines.
    """

    num_params: int
    num_data: int
    num_samples: int
    factors: list[dict[str, Any]]
    data_bytes: int
    weight_bytes: int
    factor_bytes: int
    kernel_bytes: int
    activation_bytes: int
    total_bytes: int
    available_bytes: int
    epoch_seconds: float | None = None
    hyper_seconds: float | None = None
    evaluation_seconds: float | None = None
    seconds: float | None = None


def estimate_resources(
    config: ExperimentConfig, task: Task, on_memory: Callable[[ResourceEstimate], None] | None = None
) -> ResourceEstimate:
    """The estimate of a run, its seconds extrapolated from a probe of a few data.

    Arguments:
        config: The settings.
        task: The prepared data.
        on_memory: Called with the estimate of the memory before the probe, which takes longer.
    """
    estimate = _estimate(config, task)
    if on_memory is not None:
        on_memory(estimate)
    if estimate.total_bytes > estimate.available_bytes:
        return estimate
    epoch, hyper, evaluated = _probe(config, task)
    num_data = len(task.dataset.x_train)
    settings = filled_in(config.fit, num_data)
    num_hyper = hyper_steps_due(settings.epochs, data_per_step(settings, num_data), num_data, settings)
    # a layer summary of relaxed layers costs as much as a evaluation, a pruning as two
    read_out = 1 if relaxed_layers(model(config, task)) else 0
    num_evaluated = settings.evaluation.num_evaluations + read_out + (0 if config.prune is None else 2)
    total = settings.epochs * epoch + num_hyper * hyper + num_evaluated * evaluated
    return replace(estimate, epoch_seconds=epoch, hyper_seconds=hyper, evaluation_seconds=evaluated, seconds=total)


def require_memory(config: ExperimentConfig, task: Task) -> None:
    """Raise `StructureError` if the run needs more memory than this machine has."""
    estimate = _estimate(config, task)
    if estimate.total_bytes <= estimate.available_bytes:
        return
    parts = {
        "data": estimate.data_bytes,
        "weights": estimate.weight_bytes,
        "factors": estimate.factor_bytes,
        "kernels": estimate.kernel_bytes,
        "activations": estimate.activation_bytes,
    }
    listed = ", ".join(f"{name} {size / 2**30:.1f}" for name, size in parts.items())
    raise StructureError(
        f"This run needs about {estimate.total_bytes / 2**30:.1f} GiB ({listed}); this machine has "
        f"{estimate.available_bytes / 2**30:.1f} GiB to spare. Lower the batch size or the number of samples for "
        "activations, use a narrower network for factors, smaller blocks (hyper.num_data) for kernels, or fewer images "
        "for data."
    )


def require_weights(config: ExperimentConfig, task: Task) -> None:
    """Raise `StructureError`, before the network is built, if its weights alone need more memory than there is."""
    x = task.dataset.x_train
    empty = outline(config.network, tuple(x.shape[1:]), task.dataset.num_outputs)
    if empty is None:
        return
    num_params = sum(weight.numel() for weight in empty.parameters())
    # a sparse layer begins with the moments of features at all pairs of positions, and what leads to them
    grids = [len(part.rows) * len(part.columns) for part in empty.modules() if isinstance(part, AbstractSparse)]
    needed = COPIES * x.element_size() * (num_params + max(grids, default=0) ** 2)
    available = available_memory()
    if needed > available:
        raise StructureError(
            f"'{config.network}' has {num_params:,} weights on data of shape {tuple(x.shape[1:])}, and needs "
            f"{needed / 2**30:,.1f} GiB before any data; this machine has {available / 2**30:.1f} GiB to spare. Choose "
            "a narrower network, or smaller images."
        )


def require_sample_memory(network: nn.Module, x_shape: torch.Size, num_samples: int | None) -> None:
    """Raise `StructureError` if the augmentation samples of a batch alone need more memory than there is.

    Arguments:
        x_shape: The shape (N, ...) of the batch.
        num_samples: The samples per datum; None for those of the network.
    """
    if not isinstance(network, Averaged):
        return
    chosen = num_samples or network.num_samples
    needed, available = SAMPLE_BYTES * chosen * math.prod(x_shape), available_memory()
    if needed > available:
        raise StructureError(
            f"{chosen:,} augmentation samples of {x_shape[0]} data at a time need about {needed >> 30:,} GiB; this "
            f"machine has {available / 2**30:.1f} GiB to spare. Lower --num-samples."
        )


def _estimate(config: ExperimentConfig, task: Task) -> ResourceEstimate:
    require_weights(config, task)
    network, x = model(config, task).eval(), task.dataset.x_train
    inner, averaged = (network.network, True) if isinstance(network, Averaged) else (network, False)
    require_images(inner, x[:1], task.dataset.num_outputs, config.network)
    size, settings, num_samples = x.element_size(), config.fit, config.num_samples if averaged else 1
    # the sizes of factors do not depend on the number of samples, and one is enough to see them
    single = network.with_samples(1) if isinstance(network, Averaged) else network
    weights = prior_of(config, single).weights(single)
    factors = _factors(single, weights, x[:1], settings)
    num_params = sum(weight.numel() for weight in weights_of(network).values())
    # the rows in one pass: of a weight step's batch, or of a chunk of a pass over the curvature
    rows = min(len(x) * num_samples, max(settings.weights.batch_size * num_samples, ROWS_AT_ONCE))
    if settings.hyper.estimator in ("kernel", "stochastic"):  # a block goes through whole
        rows = max(rows, block_size(settings, len(x)) * (settings.hyper.num_samples or num_samples if averaged else 1))
    # forward keeps an activation, backward makes a gradient of it, the warp keeps its grid of two coordinates
    per_row = 2 * _activations(inner, x[:1]) + (4 if averaged else 1) * x[0].numel()
    # patches are those of the mean over a datum's samples
    patches = math.ceil(rows / num_samples) * _patches(single, weights, x[:1], settings.curvature)
    parts = {
        "data_bytes": 2 * (x.numel() + task.dataset.x_test.numel()) * size,
        "weight_bytes": COPIES * num_params * size,
        "factor_bytes": 3 * sum(factor["bytes"] for factor in factors),
        "kernel_bytes": size * _kernels(len(weights), len(x), settings),
        "activation_bytes": (rows * per_row + patches) * size,
    }
    return ResourceEstimate(
        num_params=num_params,
        num_data=len(x),
        num_samples=num_samples,
        factors=factors,
        **parts,
        total_bytes=sum(parts.values()) + OVERHEAD,
        available_bytes=available_memory(),
    )


@torch.no_grad()
def _factors(
    network: nn.Module, weights: Mapping[str, nn.Parameter], x: torch.Tensor, settings: FitConfig
) -> list[dict[str, Any]]:
    """The sizes of all blocks; those of Kronecker products as one datum's pass shows them."""
    rows, curvature = coverage(network, weights).rows, settings.curvature
    if curvature == "full":
        whole = sum(weight.numel() for weight in weights.values())
        return [_factor("all weights", "full", 1, [whole], x.element_size())]
    if curvature == "diag":
        return [_factor(row.name, "diagonal", 1, [math.prod(row.shape)], x.element_size()) for row in rows]
    require_independence(network)
    captured = capture(network, x, weights)
    factors, most = captured.factors, settings.max_factor_size
    found = []
    for row in rows:
        if most is not None and row.structure == "kron" and largest_factor(captured, row.name) > most:
            found.append(_factor(row.name, "diagonal", 1, [math.prod(row.shape)], x.element_size()))
            continue
        entries, first = math.prod(row.shape), next(iter(factors[row.name]), None)
        num_blocks, sides = 1, [row.shape[0], entries // row.shape[0]] if row.structure == "kron" else [entries]
        if row.structure == "kron" and first is not None and isinstance(first.factors, OuterFactors):
            per_call, inputs = first.factors.averaged_inputs().shape[2:]
            num_blocks = per_call * first.factors.block[1]
            sides = [entries // (num_blocks * inputs), inputs]
        found.append(_factor(row.name, row.structure, num_blocks, sides, x.element_size()))
    return found


@torch.no_grad()
def _patches(network: nn.Module, weights: Mapping[str, nn.Parameter], x: torch.Tensor, curvature: str) -> int:
    """The most numbers that the inputs of one weight are unfolded into for one datum; 0 where none need be.

    Partial traces weigh each patch by its gradient, so they need all patches twice; KFAC's sum over patches of a
    convolution with wrapped edges comes from the images themselves.
    """
    if curvature not in KRON:
        return 0
    found = capture(network, x, weights).factors.values()
    outer = [call.factors for calls in found for call in calls if isinstance(call.factors, OuterFactors)]
    traced = curvature == "kron-traced"
    unfolded = [
        number
        for factors in outer
        if (traced or factors.input_shortcut() is None)
        and (number := factors.averaged_inputs().numel()) > factors.inputs.numel()
    ]
    return (2 if traced else 1) * max(unfolded, default=0)


def _kernels(num_weights: int, num_data: int, settings: FitConfig) -> int:
    """The numbers in the kernels of all weights and blocks; 0 where another estimator needs none."""
    return num_weights * num_data * block_size(settings, num_data) if settings.hyper.estimator == "kernel" else 0


def _factor(name: str, structure: str, num_blocks: int, sides: list[int], size: int) -> dict[str, Any]:
    """The row of one block: of a Kronecker product with the sides of both factors."""
    counted = sides[0] if structure == "diagonal" else num_blocks * sum(side**2 for side in sides)
    return {"name": name, "structure": structure, "blocks": num_blocks, "sizes": sides, "bytes": counted * size}


@torch.no_grad()
def _activations(network: nn.Module, x: torch.Tensor) -> int:
    """The numbers that the modules of a network give out for one datum."""
    given: list[Any] = []
    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output: given.append(output))
        for module in network.modules()
        if not list(module.children())
    ]
    try:
        network(x)
    finally:
        for hook in hooks:
            hook.remove()
    tensors = [part for output in given for part in (output if isinstance(output, tuple) else (output,))]
    return sum(tensor.numel() for tensor in tensors if isinstance(tensor, torch.Tensor))


def _probe(config: ExperimentConfig, task: Task) -> tuple[float, float, float]:
    """Seconds of an epoch, of a hyper step and of an evaluation, scaled from a few data to all.

    Eigen-decompositions do not grow with the data, so evaluations and hyper steps that read all data are timed at two
    sizes.
    """
    network = model(config, task)
    x, y = task.dataset.x_train, task.dataset.y_train
    num_data, few = len(x), min(PROBE_DATA, len(x))
    settings = filled_in(config.fit, num_data).replace(hyper={"burn_in": 0})
    if settings.hyper.estimator == "two_pass":
        settings = settings.replace(hyper={"num_data": None})
    state = initial_state(network, task.likelihood(), prior_of(config, network), settings)
    state.hyper.learning.begin(network, 0.0)
    half = max(few // 2, 1)
    batches = {number: as_batches((x[:number], y[:number]), few) for number in (half, few)}
    batch = next(iter(batches[few]))
    weight_step(state, batch, few, num_data, settings)  # the first one warms up
    epoch = _seconds(partial(weight_step, state, batch, few, num_data, settings)) * num_data / few
    evaluated = {number: _seconds(partial(evaluate, state.hyper, batches[number], settings)) for number in (half, few)}
    if settings.hyper.estimator == "running":  # the first one fills the statistics; the others read as many data
        hyper_step(state.hyper, as_batches((x, y), settings.weights.batch_size), settings)
    times = {
        number: _seconds(partial(hyper_step, state.hyper, part, settings))
        for number, part in (
            batches | {few: as_batches((x, y), few)} if settings.hyper.estimator == "running" else batches
        ).items()
    }
    if settings.hyper.estimator in ("running", "stochastic"):  # they read M data, however many there are
        return epoch, times[few], _extrapolated(evaluated, num_data)
    if settings.hyper.estimator == "kernel":  # block after block, and steps on an augmentation, which read M data each
        growing = evaluated[few] if isinstance(network, Averaged) else times[few]
        hyper = growing * num_data / few + max(times[few] - growing, 0.0)
        return epoch, hyper, evaluated[few] * num_data / few
    second = min(config.fit.hyper.num_data or num_data, num_data)
    # a hyper step is one pass over all data and, for each step on the augmentation, a more expensive one over M
    share = (1 + 2 * config.fit.hyper.num_steps * second / num_data) / (1 + 2 * config.fit.hyper.num_steps)
    return epoch, share * _extrapolated(times, num_data), _extrapolated(evaluated, num_data)


def _extrapolated(times: dict[int, float], num_data: int) -> float:
    """The straight line through two sizes, at the size of the data; through the origin where it would fall."""
    (small, low), (large, high) = min(times.items()), max(times.items())
    per_datum = (high - low) / (large - small) if high > low else high / large
    return max(high + per_datum * (num_data - large), high)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
