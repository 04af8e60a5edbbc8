"""Seconds and megabytes of passes: medians of alternating repeats, peak memory in a process per pass; the models."""

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import data
from .._types import Probes, Progress
from ..augment import Affine2d
from ..batches import Batches, as_batches
from ..models import Model
from ..networks import Averaged, cnn, fixup_resnet, lenet, mlp

Pass = Callable[[], object]


class Memory(NamedTuple):
    """The peak memory of a process, and by how much a pass raised it."""

    peak_mb: float
    pass_mb: float


def portion(progress: Progress, number: int, total: int) -> Progress:
    """The progress of one of several stages that take about as long."""
    return lambda message, done: progress(message, (number + done) / total)


def alternate(passes: Mapping[str, Pass], repeats: int, progress: Progress) -> dict[str, float]:
    """The median seconds of each pass; one unmeasured round first, then the passes alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for repeat in range(repeats + 1):
        for number, (name, run) in enumerate(passes.items()):
            stage = f"repeat {repeat} of {repeats}" if repeat else "warming up"
            progress(f"{name}: {stage}", (repeat + number / len(passes)) / (repeats + 1))
            start = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory(build: Callable[[], Mapping[str, Pass]], name: str) -> Memory:
    """The memory of one pass, run once in a new process after its data and network were built there."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        peak, before = pool.apply(_run_alone, (build, name))
    return Memory(peak, peak - before)


def bench_row(
    workload: str, name: str, probes: Probes | None, seconds: Mapping[str, float], memory: Memory | None = None
) -> dict[str, Any]:
    """One row: seconds of a pass, their ratio to the first pass, and its peak memory.

    Arguments:
        probes: The probes of its curvature; None for a pass without curvature.
        seconds: The seconds of all passes, the one that the others are compared with first.
    """
    return {
        "workload": workload,
        "pass": name,
        "probes": probes,
        "seconds": seconds[name],
        "ratio": seconds[name] / next(iter(seconds.values())),
        "peak_mb": None if memory is None else memory.peak_mb,
    }


def _run_alone(build: Callable[[], Mapping[str, Pass]], name: str) -> tuple[float, float]:
    run = build()[name]
    before = _peak()
    run()
    return _peak(), before


def _peak() -> float:
    """The largest resident size of this process so far, in MB."""
    # getrusage would include the parent's peak; the kernel's own mark starts at 0 in each program
    status = Path("/proc/self/status")
    if status.exists():
        mark = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(mark.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


class Workload(NamedTuple):
    """A model of images: one prior precision per tensor to learn, and six affine widths of an averaged network."""

    model: Model
    x: Tensor
    y: Tensor
    batch_size: int

    @property
    def batches(self) -> Batches:
        """The images and labels in batches."""
        return as_batches((self.x, self.y), self.batch_size)


def build_workload(name: str) -> Workload:
    """W1: the MLP of paper 1, 1,000 images, S = 31. W2, W2': its CNN and LeNet, W4: its ResNet 8-8, 500 images, S = 11.

    W4 has images of CIFAR-10, the others digits.
    """
    generator = torch.Generator().manual_seed(0)
    if name == "W1":
        return _averaged(mlp(784, 1000, 10, generator=generator), 1000, 31)
    if name == "W4":
        inner = fixup_resnet(8, 8, generator=generator)
        for weight in inner.parameters():  # those that start at zero would hide most of the work
            if not bool(weight.any()):
                nn.init.normal_(weight, std=0.05, generator=generator)
        return _averaged(inner, 500, 11, images="cifar-10")
    return _averaged(cnn(generator=generator) if name == "W2" else lenet(generator=generator), 500, 11)


def mlp_workload(num_data: int, num_samples: int, num_outputs: int, num_hidden: int) -> Workload:
    """An MLP of any size; labels beyond the ten digits are spread over the outputs by position."""
    generator = torch.Generator().manual_seed(0)
    return _averaged(mlp(784, num_hidden, num_outputs, generator=generator), num_data, num_samples, num_outputs)


def training_pass(workload: Workload) -> None:
    """Run forward and backward of the negative log-likelihood over all N images, or N × S of an averaged network."""
    weights = list(workload.model.weights.values())
    for index in torch.arange(len(workload.x)).split(workload.batch_size):
        outputs = _outputs(workload.model.network, workload.x[index], index)
        torch.autograd.grad(nn.functional.cross_entropy(outputs, workload.y[index], reduction="sum"), weights)


def _outputs(network: nn.Module, x: Tensor, index: Tensor) -> Tensor:
    """Outputs, without a graph of the augmentation."""
    if not isinstance(network, Averaged):
        return network(x)
    with torch.no_grad():
        noise = network.augment.sample_noise(index, network.num_samples, seed=0)
        samples = network.augment.transform(x, noise)
    return network.network(samples.flatten(0, 1)).unflatten(0, (-1, network.num_samples)).mean(1)


def labeled_images(num_data: int, num_outputs: int, name: str = "mnist-mini") -> tuple[Tensor, Tensor]:
    """Images of a data set and their labels, or labels by position for other numbers of outputs than its ten."""
    images = data.load(name)
    y = images.y_train[:num_data] if num_outputs == 10 else torch.arange(num_data) % num_outputs
    return images.x_train[:num_data], y


def _averaged(
    inner: nn.Module, num_data: int, num_samples: int, num_outputs: int = 10, images: str = "mnist-mini"
) -> Workload:
    x, y = labeled_images(num_data, num_outputs, images)
    network = Averaged(inner.to(x), Affine2d(initial_width=0.1), num_samples)
    return Workload(Model(network), x, y, num_data)
