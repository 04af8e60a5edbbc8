r"""How sharp are the minima that optimizers find, in their own metric? Paper 3, Fig. 5, Table 3 and App. E.2.

LeNet, or a wide residual network, on images, by SGD (lr 0.1, Nesterov momentum 0.9) and by Adam at its defaults, both
with a cosine schedule. The trace of the Hessian of the mean loss, on training images, is measured with the Euclidean
metric of SGD and with Adam's :math:`\sqrt{\hat v} + \epsilon`. And at SGD's minimum under ψ = θ/2 and ψ = 2θ, in whose
coordinates the network is the same function with the same generalization gap: the trace of H is multiplied by 4 and ¼,
that of E does not change.

The statistics of batch normalization make the output of a datum depend on the others while a residual network is
trained. Its Hessians are those in evaluation mode, where it is a fixed affine map.
"""

import re
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from ...data import Dataset, limited, load
from ...errors import StructureError
from ...geometry import InChart, estimate_trace, flat_metric, loss_hessian, optimizer_metric, scaling
from ...networks import lenet
from ...noise import fold, permutation
from ...priors import weights_of
from ...records import Claim
from ..cells import CellSpec, compute_cells
from ..study import Request
from .coordinates import Part, row

OPTIMIZERS = ("SGD", "Adam")
FACTORS = (1.0, 0.5, 2.0)  # ψ = cθ of Table 3
MIN_RATIO = 10.0  # of the sharpness of Adam's minima to SGD's, each in its own metric


@dataclass(frozen=True)
class Minima:
    """The sizes: data sets, images of each, epochs, seeds, images and products of the traces, batches, network."""

    data: tuple[str, ...]
    num_train: int | None
    epochs: int
    num_seeds: int
    num_measured: int
    num_products: int = 30
    batch_size: int = 125
    network: str = "lenet"


@dataclass(frozen=True)
class Minimum:
    """One trained network."""

    naive: float  # the trace of the Hessian of the mean loss
    own: float  # the trace of E with the optimizer's own metric
    error: float  # the 95 % error of `own`
    accuracy: float
    # the trace of H under each ψ = cθ, for the one network of Table 3
    naive_scaled: list[float] = field(default_factory=list)
    # the trace of E there, with the Euclidean metric of θ carried along
    aware_scaled: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)  # the training minus the test accuracy there
    gap: float | None = None  # the training minus the test accuracy of the network itself
    seconds: float = 0.0  # the time of training and measurement


def minima(chosen: Minima, request: Request) -> Part:
    """Traces at the minima of both optimizers."""
    found = train_minima(chosen, request)
    rows = [
        row("Fig. 5", name, "trace / N", *(_mean([getattr(one, key) for one in ones]) for key in ("naive", "own")))
        for name, ones in found.items()
    ]
    table = found[f"{chosen.data[0]}, {OPTIMIZERS[0]}"][0]
    traces = zip(FACTORS, table.naive_scaled, table.aware_scaled, strict=True)
    rows += [row("Table 3", case(factor), "trace / N", naive, carried) for factor, naive, carried in traces]
    series = {name: [asdict(one) for one in ones] for name, ones in found.items()}
    return Part(rows, {"minima": series}, claims_of(chosen, found))


def train_minima(chosen: Minima, request: Request) -> dict[str, list[Minimum]]:
    """The minima of each data set and optimizer, one per seed."""
    seeds = range(request.seed, request.seed + chosen.num_seeds)
    jobs = [(data, seed, name) for data in chosen.data for seed in seeds for name in OPTIMIZERS]
    sizes = {name: value for name, value in asdict(chosen).items() if name not in ("data", "num_seeds")}
    specs = [
        CellSpec(
            f"{data}, {optimizer}, seed {seed}",
            sizes | {"data": data, "data_dir": str(request.data_dir), "seed": seed},
            Minimum,
            partial(_minimum, chosen, (data, seed, optimizer), request.data_dir, (data, seed, optimizer) == jobs[0]),
        )
        for data, seed, optimizer in jobs
    ]
    found: dict[str, list[Minimum]] = {}
    cells = compute_cells(specs, request.folder, request.progress, request.options.processes or 1)
    for (data, _, optimizer), one in zip(jobs, cells.values(), strict=True):
        found.setdefault(f"{data}, {optimizer}", []).append(one)
    return found


def claims_of(chosen: Minima, found: dict[str, list[Minimum]]) -> list[Claim]:
    """Fig. 5 of every data set, and Table 3 of the first one."""
    return [*_biases(chosen, found), *_scalings(found[f"{chosen.data[0]}, {OPTIMIZERS[0]}"][0])]


def _minimum(chosen: Minima, job: tuple[str, int, str], data_dir: Path | None, scaled: bool) -> Minimum:
    (name, seed, optimizer), started = job, time.perf_counter()
    dataset = load(name, data_dir)
    if chosen.num_train is not None:
        dataset = limited(dataset, chosen.num_train, seed)
    network = _network(chosen.network, dataset, seed)
    trained = _train(network, dataset, optimizer, chosen, seed)
    network.eval()  # batch normalization as a fixed affine map, for the Hessian and for accuracies
    number = min(chosen.num_measured, len(dataset.x_train))
    data = dataset.x_train[:number], dataset.y_train[:number]
    trace = partial(estimate_trace, num_products=chosen.num_products, seed=seed)
    hessian = loss_hessian(network, data)
    naive = own = trace(hessian)
    if optimizer == "Adam":
        own = trace(hessian.under(flat_metric(optimizer_metric(trained, network), weights_of(network))))
    found = Minimum(
        naive=float(naive.value) / number,
        own=float(own.value) / number,
        error=float(own.error) / number,
        accuracy=_accuracy(network, *dataset.test),
        gap=_accuracy(network, *dataset.train) - _accuracy(network, *dataset.test),
    )
    for factor in FACTORS if scaled else ():
        charted = InChart(network, weights_of(network), scaling(factor))
        there = loss_hessian(charted, data)
        found.naive_scaled.append(float(trace(there).value) / number)
        carried = there.under(torch.ones_like(charted.psi), charted.point)
        found.aware_scaled.append(float(trace(carried).value) / number)
        found.gaps.append(_accuracy(charted, *dataset.train) - _accuracy(charted, *dataset.test))
    return replace(found, seconds=time.perf_counter() - started)


def _network(name: str, dataset: Dataset, seed: int) -> nn.Module:
    if name == "lenet":
        return lenet(generator=torch.Generator().manual_seed(seed)).float()
    return wide_resnet(name, dataset.x_train.shape[1], len(dataset.class_names), seed).float()


def _train(network: nn.Module, dataset: Dataset, name: str, chosen: Minima, seed: int) -> torch.optim.Optimizer:
    """Train the network and return the optimizer with its state."""
    optimizer: torch.optim.Optimizer = torch.optim.Adam(network.parameters())
    if name == "SGD":
        optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.epochs)
    x, y = dataset.train
    for epoch in range(chosen.epochs):
        for batch in permutation(fold(seed, epoch), len(x)).split(chosen.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return optimizer


@torch.no_grad()
def _accuracy(network: nn.Module, x: Tensor, y: Tensor) -> float:
    classes = torch.cat([network(chunk).argmax(1) for chunk in x.split(1000)])
    return float((classes == y).double().mean())


def _biases(chosen: Minima, found: dict[str, list[Minimum]]) -> list[Claim]:
    claims = []
    for data in chosen.data:
        sgd, adam = ([one.own for one in found[f"{data}, {name}"]] for name in OPTIMIZERS)
        sentence = f"Fig. 5, {data}: in the optimizer's own metric Adam's minima are far sharper, for every seed"
        sharper = max(sgd) > 0 and min(adam) > MIN_RATIO * max(sgd)
        claims.append(Claim(sentence, f"> {MIN_RATIO * max(sgd):.0f}", f"{min(adam):.0f} or more", sharper))
    return claims


def _scalings(table: Minimum) -> list[Claim]:
    places = range(1, len(FACTORS))
    naive = max(abs(table.naive_scaled[n] / table.naive_scaled[0] * FACTORS[n] ** 2 - 1) for n in places)
    carried = max(abs(table.aware_scaled[n] / table.aware_scaled[0] - 1) for n in places)
    gap = max(abs(table.gaps[n] - table.gaps[0]) for n in places)
    return [
        Claim("Table 3: θ/2 and 2θ have 4 times and ¼ of the trace of H", "to 0.1 %", f"{naive:.1e}", naive < 1e-3),
        Claim("Table 3: the trace of E does not change", "to 0.1 %", f"{carried:.1e}", carried < 1e-3),
        Claim("Table 3: the generalization gap does not change", "to 0.1 %", f"{gap:.1e}", gap < 1e-3),
    ]


def case(factor: float) -> str:
    """The coordinates ψ = cθ in words."""
    return "θ" if factor == 1 else f"ψ = {factor:g} θ"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


_NAME = re.compile(r"wide-resnet-(\d+)-(\d+)")


class WideBlock(nn.Module):
    """Two 3×3 convolutions, each after normalization and ReLU, added to their input."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(num_in), nn.BatchNorm2d(num_out)
        self.conv1 = nn.Conv2d(num_in, num_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(num_out, num_out, 3, 1, 1, bias=False)
        same = num_in == num_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(num_in, num_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The features of the block."""
        before = torch.relu(self.norm1(x))
        skipped = x if self.shortcut is None else self.shortcut(before)
        return skipped + self.conv2(torch.relu(self.norm2(self.conv1(before))))


def wide_resnet(name: str, num_channels: int, num_outputs: int, seed: int) -> nn.Module:
    """The wide residual network of a name such as "wide-resnet-16-4".

    Arguments:
        name: Depth 6n + 4 and width k: three groups of n blocks with 16k, 32k and 64k channels.
        seed: The seed of the initial weights, normal with variance 2 / (9 × output channels) in convolutions.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) < 10 or (int(match[1]) - 4) % 6 or int(match[2]) < 1:
        raise StructureError(f"Expected a name such as 'wide-resnet-10-1' (depth 6n + 4 and width), got '{name}'.")
    num_blocks, width = (int(match[1]) - 4) // 6, int(match[2])
    layers: list[nn.Module] = [nn.Conv2d(num_channels, 16, 3, 1, 1, bias=False)]
    before = 16
    for group, channels in enumerate((16 * width, 32 * width, 64 * width)):
        for block in range(num_blocks):
            layers.append(WideBlock(before, channels, 2 if group and not block else 1))
            before = channels
    layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    network = nn.Sequential(*layers, nn.Linear(before, num_outputs))
    _initialize(network, torch.Generator().manual_seed(seed))
    return network


@torch.no_grad()
def _initialize(network: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights; biases and shifts start at zero, scales at one."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            deviation = (2 / (module.kernel_size[0] * module.kernel_size[1] * module.out_channels)) ** 0.5
            module.weight.normal_(0.0, deviation, generator=generator)
        elif isinstance(module, nn.Linear):
            module.weight.normal_(0.0, module.in_features**-0.5, generator=generator)
            module.bias.zero_()
