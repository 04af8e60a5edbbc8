"""Which quantities of a network depend on its parametrization, and which do not? Paper 3.

App. A, Fig. 2, Table 1, Table 3, Fig. 4 and 5, each with the naive quantity, which changes, and the metric-aware one,
which does not. Last, the accuracy of the estimates for large networks and of their stated errors.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...data import load
from ...geometry import MatrixFree, SharpnessConfig, gauss_newton, loss_hessian
from ...geometry.sharpness import sharpness_accuracy
from ...networks import mlp
from ...records import Claim, Study
from ...training import versions
from ..study import Request
from .coordinates import Part, determinants, modes, paths, priors, row
from .invariant_evidence import evidences
from .optimizer_bias import Minima, minima

BARS = {"trace": 0.02, "log_det": 0.01, "eigenvalues": 0.001}  # largest relative error
COVERED = 0.9  # the fraction of seeds whose 95 % interval must hold the truth
PRODUCTS = SharpnessConfig(trace_products=90, num_probes=40, probe_steps=6)


@dataclass(frozen=True)
class Scale:
    """The sizes of the study."""

    path_steps: int  # steps of the paths
    widths: tuple[int, ...]  # of the networks whose kernels are measured
    evidence_seeds: int  # networks of Table 1
    evidence_epochs: int  # steps of their training
    minima: Minima  # those of Fig. 5 and Table 3
    num_hidden: int  # hidden units of the network whose estimates are checked; 33 make 1,990 weights
    estimator_seeds: int  # seeds of the estimates


WIDTHS = (16, 64, 256, 1024, 4096)
IMAGES = ("mnist", "fashion-mnist")
SCALES = {
    "smoke": Scale(20, (16, 64), 1, 100, Minima(("mnist-mini",), 250, 3, 1, 50, num_products=9), 8, 3),
    "cpu": Scale(100, WIDTHS, 5, 1000, Minima(IMAGES, 5000, 12, 2, 500), 33, 100),
    "paper": Scale(100, WIDTHS, 5, 1000, Minima(IMAGES, None, 100, 5, 2000, num_products=60), 33, 100),
}


def reparametrization(request: Request) -> Study:
    """Quantities of paper 3, naive and metric-aware, in different coordinates."""
    started, chosen, seed = time.perf_counter(), SCALES[request.scale], request.seed
    work: list[tuple[str, float, Callable[[], Part]]] = [
        ("App. A and Fig. 2", 0.0, determinants),
        ("Fig. 2a", 0.01, lambda: paths(chosen.path_steps)),
        ("Fig. 2b", 0.02, modes),
        ("Fig. 4", 0.03, lambda: priors(chosen.widths, 10, seed)),
        ("Table 1", 0.04, lambda: evidences(chosen.evidence_seeds, chosen.evidence_epochs, seed)),
        ("estimates", 0.1, lambda: estimators(chosen.num_hidden, chosen.estimator_seeds)),
        ("minima", 0.3, lambda: minima(chosen.minima, request.within(0.3, 1.0))),
    ]
    parts = []
    for name, done, make in work:
        request.progress(name, done)
        parts.append(make())
    return Study(
        name="reparametrization",
        scale=request.scale,
        title="Quantities that depend on the parametrization, and quantities that do not",
        config=asdict(chosen) | {"seed": seed},
        versions=versions(),
        rows=[line for part in parts for line in part.rows],
        series={name: values for part in parts for name, values in part.series.items()},
        claims=[claim for part in parts for claim in part.claims],
        seconds=time.perf_counter() - started,
    )


def estimators(num_hidden: int, num_seeds: int) -> Part:
    """Estimates of trace, log-determinant and eigenvalues against dense ones, for a network on 7×7 digits."""
    digits = load("mnist-mini")
    data = nn.functional.avg_pool2d(digits.x_train[:200].double(), 4), digits.y_train[:200]
    network = mlp(49, num_hidden, 10, nn.ReLU, generator=torch.Generator().manual_seed(0)).double()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(data[0]), data[1]).backward()
        optimizer.step()
    dense = [make(network, data).to_dense() for make in (loss_hessian, gauss_newton)]
    hessian, ggn = (MatrixFree(partial(_products, matrix), len(matrix)) for matrix in dense)
    found = sharpness_accuracy(hessian, ggn, config=PRODUCTS, num_seeds=num_seeds)
    claims = []
    for name, bar in BARS.items():
        one, bar_covered = found[name], round(COVERED * num_seeds)
        what = name.replace("_", "-")
        claims += [
            Claim(f"estimates: {what}, the largest error of {num_seeds} seeds", f"< {bar:.1%}",
                  f"{one.largest_error:.2%}, {one.num_products} products", one.largest_error < bar),
            Claim(f"estimates: {what}, seeds whose interval holds the truth", f"≥ {bar_covered}", str(one.num_covered),
                  one.num_covered >= bar_covered),
        ]  # fmt: skip
    rows = [row("estimates", f"{len(dense[0])} weights", name, None, found[name].largest_error) for name in BARS]
    return Part(rows, {}, claims)


def _products(matrix: Float[Tensor, "P P"], vectors: Float[Tensor, "K P"]) -> Float[Tensor, "K P"]:
    return vectors @ matrix
