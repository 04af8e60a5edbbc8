"""Other libraries on the tasks that they have: KFAC of a plain network, and the value of its evidence.

Exact probes are compared with their exact ones, one probe with their one Monte-Carlo sample. Libraries that are not
installed are skipped. The last rows compare one probe with exact ones for 100 outputs.
"""

import copy
import importlib
import importlib.util
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from .._types import Probes, Progress
from ..curvature import kfac
from ..evidence import log_evidence
from ..networks import cnn, mlp
from .measure import Pass, alternate, bench_row, labeled_images, portion


def measure_peers(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """Rows of each library's pass; `ratio` is its time over ours on the same task."""
    rows = []
    generator = torch.Generator().manual_seed(0)
    networks = [
        ("plain mlp 784-1000-10", 1000, mlp(784, 1000, 10, generator=generator).float()),
        ("plain cnn 16-32-64", 500, cnn(generator=generator).float()),
        ("plain mlp 784-1000-100", 1000, mlp(784, 1000, 100, generator=generator).float()),
    ]
    for number, (workload, num_data, network) in enumerate(networks):
        x, y = labeled_images(num_data, 100 if workload.endswith("-100") else 10)
        for task, passes in _tasks(network, x, y).items():
            seconds = alternate(passes, repeats, portion(progress, number, len(networks)))
            for name in seconds:
                probes: Probes = 1 if "one" in task else "exact"
                row = bench_row(workload, name, probes, seconds) | {"task": task}
                rows.append(row | (_logdet_bias(network, x, y) if name == "covary" and probes == 1 else {}))
    return rows


def _tasks(network: nn.Module, x: Tensor, y: Tensor) -> dict[str, dict[str, Pass]]:
    if int(y.max()) >= 10:
        return {
            "KFAC, exact against one probe": {
                "covary": partial(_ours, network, x, y, 1),
                "covary, exact probes": partial(_ours, network, x, y, "exact"),
            }
        }
    return {
        "KFAC, exact": {
            "covary": partial(_ours, network, x, y, "exact"),
            **_installed("backpack", "BackPACK KFLR", partial(_backpack, network, x, y, "KFLR")),
            **_installed("curvlinops", "curvlinops type-2", partial(_curvlinops, network, x, y, "type-2")),
        },
        "KFAC, one sample": {
            "covary": partial(_ours, network, x, y, 1),
            **_installed("backpack", "BackPACK KFAC", partial(_backpack, network, x, y, "KFAC")),
            **_installed("curvlinops", "curvlinops mc", partial(_curvlinops, network, x, y, "mc")),
        },
        "value of the evidence": {
            "covary": partial(log_evidence, network, (x, y)),
            **_installed("laplace", "laplace-torch", partial(_laplace_torch, network, x, y)),
        },
    }


def _installed(module: str, name: str, run: Pass) -> dict[str, Pass]:
    return {name: run} if importlib.util.find_spec(module) is not None else {}


@torch.no_grad()
def _ours(network: nn.Module, x: Tensor, y: Tensor, probes: Probes) -> None:
    kfac(network, (x, y), probes=probes)


@torch.no_grad()
def _logdet_bias(network: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """The relative error of log|H + 1| with one probe."""
    one = kfac(network, (x, y), probes=1).logdet(1.0)
    return {"logdet_bias": float(one / kfac(network, (x, y)).logdet(1.0) - 1)}


def _backpack(network: nn.Module, x: Tensor, y: Tensor, extension: str) -> None:
    backpack, extensions = importlib.import_module("backpack"), importlib.import_module("backpack.extensions")
    # it extends modules in place
    extended = backpack.extend(copy.deepcopy(network))
    loss = backpack.extend(nn.CrossEntropyLoss(reduction="sum"))
    with backpack.backpack(getattr(extensions, extension)()):
        loss(extended(x), y).backward()


def _curvlinops(network: nn.Module, x: Tensor, y: Tensor, fisher_type: str) -> None:
    operator = importlib.import_module("curvlinops").KFACLinearOperator
    loss = nn.CrossEntropyLoss(reduction="sum")
    weights = list(network.parameters())
    built = operator(network, loss, weights, [(x, y)], fisher_type=fisher_type, check_deterministic=False)
    float(built.trace)  # the factors are computed when they are first needed


def _laplace_torch(network: nn.Module, x: Tensor, y: Tensor) -> None:
    laplace = importlib.import_module("laplace").Laplace
    fitted = laplace(copy.deepcopy(network), "classification", subset_of_weights="all", hessian_structure="kron")
    fitted.fit(DataLoader(TensorDataset(x, y), batch_size=len(x)))
    fitted.log_marginal_likelihood()
