"""What a change of coordinates does to a determinant, a path, a mode and a prior, in low dimensions.

Paper 3, App. A, Fig. 2 and Fig. 4 with App. E.1. Each function measures a quantity as it is usually computed (naive)
and with the metric carried along (metric-aware).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ... import geometry
from ...geometry import CARTESIAN, Chart, InvariantDescent, Point, euclidean_metric, scaling, steepest
from ...noise import fold, normal
from ...records import Claim

EUCLIDEAN = euclidean_metric()
SIZE = 3  # d of App. A
TIME = 2.0  # T of the paths
START = (2.5, 2.2)
STIFFNESS = torch.tensor([[1.0, 0.6], [0.6, 2.5]], dtype=torch.float64)
SIGMA, WIDTH = 1.0, 4  # of Fig. 4


class Part(NamedTuple):
    """One part of the study: rows of its table, series of its panels, claims."""

    rows: list[dict[str, Any]]
    series: dict[str, Any]
    claims: list[Claim]


def row(part: str, case: str, quantity: str, naive: float | None, aware: float | None) -> dict[str, Any]:
    """One line of the table: a naive quantity and the metric-aware one."""
    return {"part": part, "case": case, "quantity": quantity, "naive": naive, "metric-aware": aware}


def determinants() -> Part:
    """App. A and Fig. 2c: the determinant of the Hessian of Σθ² under ψ = cθ."""
    factors = torch.logspace(-1, 1, 9, base=3.0, dtype=torch.float64).tolist()
    point = Point(torch.linspace(-1.0, 1.0, SIZE, dtype=torch.float64))
    found = {}
    for factor in sorted({1.0, 3.0, *factors}):
        operator = geometry.hessian_operator(lambda theta: theta.square().sum(), EUCLIDEAN, point.to(scaling(factor)))
        naive, aware = operator.hessian.components.det(), operator.operator.components.det()
        found[factor] = (float(naive), float(aware))
    rows = [
        row("App. A", "θ" if factor == 1 else f"ψ = {factor:g} θ", f"determinant, d = {SIZE}", *found[factor])
        for factor in (1.0, 3.0)
    ]
    moved = abs(found[3.0][0] / (2 / 9) ** SIZE - 1)
    kept = max(abs(aware / 2.0**SIZE - 1) for _, aware in found.values())
    claims = [
        Claim("App. A: under ψ = 3θ, det H becomes (2/9)^d", "to 1e-12", f"{moved:.1e}", moved < 1e-12),
        Claim("App. A: det E is 2^d under every ψ = cθ", "to 1e-12", f"{kept:.1e}", kept < 1e-12),
    ]
    series = {"factor": list(found), "naive": [n for n, _ in found.values()], "aware": [a for _, a in found.values()]}
    return Part(rows, {"determinants": series}, claims)


def paths(num_steps: int) -> Part:
    """Fig. 2a: gradient descent for a fixed time in θ, in ψ = log θ as it is, and in ψ with the metric of θ."""
    chart = geometry.logarithm()
    plain = euclidean_metric(chart)  # plain gradient descent in ψ has the Euclidean metric of ψ
    cartesian, naive = _path(EUCLIDEAN, CARTESIAN, num_steps), _path(plain, chart, num_steps)
    aware = _path(EUCLIDEAN, chart, num_steps)
    gaps = [_gap(naive, cartesian), _gap(aware, cartesian)]
    finer = _gap(_path(EUCLIDEAN, chart, 2 * num_steps), _path(EUCLIDEAN, CARTESIAN, 2 * num_steps))
    ratio = gaps[1] / finer
    claims = [
        Claim("Fig. 2a: with the metric, half the step is half the gap", "2 ± 0.2", f"{ratio:.3f}",
              abs(ratio - 2) < 0.2),
        Claim("Fig. 2a: without the metric the path is another one", "> 10 ×", f"{gaps[0] / gaps[1]:.0f} ×",
              gaps[0] > 10 * gaps[1]),
    ]  # fmt: skip
    rows = [row("Fig. 2a", "ψ = log θ", f"largest distance from the path in θ, {num_steps} steps", *gaps)]
    grid = torch.linspace(0.25, 2.75, 41, dtype=torch.float64)
    heights = [[float(_bowl(torch.stack([x, y]))) for x in grid] for y in grid]
    drawn = {"cartesian": cartesian.tolist(), "naive": naive.tolist(), "aware": aware.tolist()}
    return Part(rows, {"paths": drawn | {"axis": grid.tolist(), "loss": heights}}, claims)


def modes() -> Part:
    """Fig. 2b: the mode of a density over θ > 0 in θ and in ψ = log θ, per unit of ψ and of the metric's volume."""
    chart, start = geometry.logarithm(), torch.tensor([1.5], dtype=torch.float64)
    in_psi = geometry.lebesgue_log_density(_gamma, chart)
    with_metric = geometry.riemannian_log_density(_gamma, EUCLIDEAN, chart)
    cartesian = float(geometry.find_mode(_gamma, start))
    naive, aware = (float(chart.inverse(geometry.find_mode(f, chart.forward(start)))) for f in (in_psi, with_metric))
    grid = torch.linspace(0.05, 9.0, 120, dtype=torch.float64).unsqueeze(-1)
    densities = {
        "cartesian": [float(_gamma(theta).exp()) for theta in grid],
        "naive": [float(in_psi(chart.forward(theta)).exp()) for theta in grid],
        "aware": [float(with_metric(chart.forward(theta)).exp()) for theta in grid],
    }
    gap = abs(aware - cartesian)
    claims = [
        Claim("Fig. 2b: with the metric the mode does not move", "to 1e-8", f"{gap:.1e}", gap < 1e-8),
        Claim("Fig. 2b: without the metric the mode moves", "from 2 to 3", f"{cartesian:.3f} to {naive:.3f}",
              abs(naive - 3) < 1e-6),
    ]  # fmt: skip
    series = {"axis": grid.squeeze(-1).tolist(), "modes": {"cartesian": cartesian, "naive": naive, "aware": aware}}
    return Part([row("Fig. 2b", "ψ = log θ", "mode in θ", naive, aware)], {"modes": series | densities}, claims)


def priors(widths: tuple[int, ...], num_draws: int, seed: int) -> Part:
    """Fig. 4 and App. E.1: standard and NTK parametrization have different priors, and different kernels.

    The chart ψ = θ / s relates them. "Naive" is the NTK parametrization, Euclidean in ψ; "metric-aware" has the
    metric of θ, carried to ψ.
    """
    chosen = partial(_normal_log_density, SIGMA / WIDTH**0.5)  # of θ in the one, and of ψ in the other
    carried = geometry.lebesgue_log_density(chosen, scaling(SIGMA / WIDTH**0.5))
    grid = torch.linspace(-1.5, 1.5, 121, dtype=torch.float64).unsqueeze(-1)
    drawn = {
        "axis": grid.squeeze(-1).tolist(),
        "carried": [float(carried(psi).exp()) for psi in grid],
        "chosen": [float(chosen(psi).exp()) for psi in grid],
    }
    architecture = geometry.InfiniteNetwork(1, "relu", 2.0, 0.1)
    x = normal(seed, torch.arange(3), (5,), dtype=torch.float64)
    limit = float(geometry.ntk(architecture, x).trace())
    traces: dict[str, list[float]] = {"ntk": [], "standard": []}
    for number, width in enumerate(widths):
        generator = torch.Generator().manual_seed(fold(seed, number) % 2**31)
        kernels = [geometry.finite_kernels(architecture, x, width, generator) for _ in range(num_draws)]
        for name, found in traces.items():
            found.append(sum(float(getattr(kernel, name).trace()) for kernel in kernels) / num_draws)
    exponent = math.log(traces["standard"][-1] / traces["standard"][-2]) / math.log(widths[-1] / widths[-2])
    moved = _kernel_change(architecture, x, torch.Generator().manual_seed(seed))
    error = abs(traces["ntk"][-1] / limit - 1)
    ratio = float((carried(grid[0] * 0) - chosen(grid[0] * 0)).exp())
    claims = [
        Claim("Fig. 4: the priors of the two parametrizations differ: densities at 0", "2 : 1", f"{ratio:.6f} : 1",
              abs(ratio - 2) < 1e-9),
        Claim("App. E.1: with the metric of θ carried to ψ the kernel is that of θ", "to 1e-10", f"{moved:.1e}",
              moved < 1e-10),
        Claim("App. E.1: that kernel grows with the width h", "exponent 1 ± 0.15", f"{exponent:.2f}",
              abs(exponent - 1) < 0.15),
        Claim(f"App. E.1: the NTK reaches its limit, h = {widths[-1]}", "within 10 %", f"{error:.1%}", error < 0.1),
    ]  # fmt: skip
    rows = [
        row("App. E.1", f"ψ = θ / s, width {width}", "trace of the tangent kernel", ntk, standard)
        for width, ntk, standard in zip(widths, *traces.values(), strict=True)
    ]
    return Part(rows, {"priors": drawn, "kernels": {"widths": list(widths), "limit": limit} | traces}, claims)


def _kernel_change(
    architecture: geometry.InfiniteNetwork, x: Float[Tensor, "N D"], generator: torch.Generator
) -> float:
    """The largest relative change of the tangent kernel of a narrow network by the chart, its metric carried along."""
    network = geometry.draw_network(architecture, (x.shape[1], 8, 1), generator, x.dtype)
    point = Point(geometry.flatten(dict(network.named_parameters())).detach())
    chart, outputs = geometry.ntk_chart(network, 2.0, 0.1), geometry.flat_outputs(network, x)
    here, there = (geometry.ntk_in_chart(outputs, EUCLIDEAN.at(point.to(c))) for c in (CARTESIAN, chart))
    return float((here - there).abs().max() / here.abs().max())


def _bowl(theta: Float[Tensor, "2"]) -> Float[Tensor, ""]:
    """A tilted bowl with its minimum at (1, 1)."""
    gap = theta - 1.0
    return 0.5 * gap @ STIFFNESS @ gap


def _gamma(theta: Float[Tensor, "1"]) -> Float[Tensor, ""]:
    """The log-density of Gamma(3, 1), whose mode is 2."""
    return (2 * theta.log() - theta).sum() - math.log(2.0)


def _normal_log_density(deviation: float, theta: Float[Tensor, "1"]) -> Float[Tensor, ""]:
    return -0.5 * (theta / deviation).square().sum() - math.log(deviation * math.sqrt(2 * math.pi))


def _path(metric: geometry.Metric, chart: Chart, num_steps: int) -> Float[Tensor, "steps 2"]:
    """The path in θ of a descent in the coordinates of a chart."""
    start = torch.tensor(START, dtype=torch.float64)
    return chart.inverse(InvariantDescent(steepest(metric), TIME / num_steps, chart).run(_bowl, start, num_steps))


def _gap(path: Float[Tensor, "steps 2"], other: Float[Tensor, "steps 2"]) -> float:
    return float((path - other).norm(dim=-1).max())
