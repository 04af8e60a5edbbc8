"""The figure of the study `reparametrization`: paper 3's figures and tables, naive above, metric-aware below."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from ...records import Study
from ...report.svg import COLORS, INK, MUTED, PALE, style

AWARE, NAIVE = COLORS[0], COLORS[1]


def reparametrization_figure(study: Study) -> Figure:
    """Fig. 2 in two rows and three columns, then Table 1, Table 3 with Fig. 5, and Fig. 4 with its kernels."""
    with style():
        figure = Figure(figsize=(10.0, 9.6), layout="constrained")
        panels = figure.subplots(4, 3)
        for row, (kind, words) in zip(panels, (("naive", "naive"), ("aware", "metric-aware")), strict=False):
            _paths(row[0], study.series["paths"], kind)
            _modes(row[1], study.series["modes"], kind)
            _determinants(row[2], study.series["determinants"], kind)
            for panel, what in zip(row, ("paths", "modes", "determinants"), strict=True):
                panel.set_title(f"{what}, {words}")
        _evidences(panels[2, 0], study.series["evidences"], "naive")
        _evidences(panels[2, 1], study.series["evidences"], "proper")
        _scalings(panels[2, 2], study)
        _minima(panels[3, 0], study.series["minima"])
        _priors(panels[3, 1], study.series["priors"])
        _kernels(panels[3, 2], study.series["kernels"])
    return figure


def sharpness_figure(study: Study) -> Figure:
    """The trace at the minima of both optimizers in two metrics (Fig. 5), and under ψ = cθ (Table 3)."""
    scaled = study.series["scaled"]
    with style():
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _minima(left, study.series["minima"])
        _pairs(right, [line["case"] for line in scaled], [(line["naive"], line["metric-aware"]) for line in scaled])
        right.set_title("trace under ψ = cθ, SGD")
        _legend_below(right, ["naive", "metric-aware"])
    return figure


def _paths(panel: Axes, paths: Mapping[str, Any], kind: str) -> None:
    """Draw Fig. 2a: the paths in θ and in ψ = log θ, over contours of the loss."""
    panel.contour(paths["axis"], paths["axis"], paths["loss"], levels=8, colors=PALE, linewidths=0.7)
    panel.plot(*np.array(paths["cartesian"]).T, color=INK, linewidth=3.0, alpha=0.35, label="in θ")
    panel.plot(*np.array(paths[kind]).T, "--", color=AWARE if kind == "aware" else NAIVE, label="in ψ = log θ")
    panel.set(xlabel="θ₁", ylabel="θ₂")
    panel.legend(loc="lower right")
    panel.grid(False)


def _modes(panel: Axes, found: Mapping[str, Any], kind: str) -> None:
    """Draw Fig. 2b: the densities in θ and in ψ = log θ, with their modes."""
    lines = {"cartesian": ("in θ", INK), kind: ("in ψ = log θ", AWARE if kind == "aware" else NAIVE)}
    for name, (label, color) in lines.items():
        broad = name == "cartesian"
        panel.plot(found["axis"], found[name], "-" if broad else "--", color=color, linewidth=3.0 if broad else 1.6,
                   alpha=0.35 if broad else 1.0, label=label)  # fmt: skip
        panel.axvline(found["modes"][name], color=color, linestyle=":" if broad else "--", linewidth=0.8)
    panel.set(xlabel="θ", ylabel="density", ylim=(0, None))
    panel.legend(loc="upper right")


def _determinants(panel: Axes, found: Mapping[str, Any], kind: str) -> None:
    """Draw Fig. 2c and App. A: the determinant at the minimum of Σθ² for ψ = cθ."""
    panel.plot(found["factor"], found[kind], color=AWARE if kind == "aware" else NAIVE)
    panel.set(xscale="log", yscale="log", xlabel="c of ψ = c θ", ylabel="det E" if kind == "aware" else "det H")
    panel.set_ylim(min(found["naive"]) / 2, max(found["naive"]) * 2)
    panel.set_xticks([1 / 3, 1, 3], ["⅓", "1", "3"])
    _plain_numbers(panel)


def _evidences(panel: Axes, found: Mapping[str, Any], kind: str) -> None:
    """Draw Table 1: the log evidence of every seed in each parametrization, a line per seed."""
    named = {name: values[kind] for name, values in found.items() if values[kind] is not None}
    for values in zip(*named.values(), strict=True):
        panel.plot(range(len(named)), values, "o-", color=NAIVE if kind == "naive" else AWARE, linewidth=0.7)
    panel.set_xticks(range(len(named)), [name.replace("Norm", "-\nNorm") for name in named])
    every = [value for values in found.values() for value in values["naive"]]
    margin = 0.1 * (max(every) - min(every))
    panel.set_ylim(min(every) - margin, max(every) + margin)
    panel.margins(x=0.3)
    panel.set_title(f"log evidence, {kind}")
    panel.set_ylabel("nats")


def _scalings(panel: Axes, study: Study) -> None:
    """Draw Table 3: the trace at one minimum in three scales."""
    rows = [row for row in study.rows if row["part"] == "Table 3"]
    _pairs(panel, [row["case"] for row in rows], [(row["naive"], row["metric-aware"]) for row in rows])
    panel.set_title("trace, one minimum")
    _legend_below(panel, ["naive", "metric-aware"])


def _minima(panel: Axes, found: Mapping[str, Any]) -> None:
    """Draw Fig. 5: the trace at the minima of SGD and Adam, Euclidean and in the optimizer's own metric."""
    means = [tuple(np.mean([one[key] for one in ones]) for key in ("naive", "own")) for ones in found.values()]
    _pairs(panel, [name.replace(", ", "\n") for name in found], means)
    panel.set_title("trace, two optimizers")
    panel.tick_params(axis="x", labelsize=6.5)
    _legend_below(panel, ["Euclidean metric", "the optimizer's own"])


def _pairs(panel: Axes, names: Sequence[str], pairs: Sequence[tuple[float, float]]) -> None:
    """Draw pairs of marks on a logarithmic scale that goes through 0: an untrained network has a negative trace."""
    for place, (values, color) in enumerate(zip(zip(*pairs, strict=True), (NAIVE, AWARE), strict=True)):
        panel.bar(np.arange(len(names)) + 0.36 * place - 0.18, values, 0.34, color=color)
    panel.set_yscale("symlog", linthresh=1.0)
    _plain_numbers(panel)
    panel.set_xticks(range(len(names)), names)
    panel.grid(False, axis="x")


def _legend_below(panel: Axes, labels: Sequence[str]) -> None:
    panel.legend(labels, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=len(labels))


def _priors(panel: Axes, found: Mapping[str, Any]) -> None:
    """Draw Fig. 4: the prior of the standard parametrization in ψ, and that of the NTK parametrization."""
    panel.plot(found["axis"], found["carried"], color=AWARE, label="standard, carried to ψ")
    panel.plot(found["axis"], found["chosen"], color=NAIVE, label="NTK, chosen in ψ")
    panel.set(xlabel="ψ", ylabel="density", ylim=(0, 1.35 * max(found["carried"])), title="two priors, h = 4")
    panel.legend(loc="upper left")


def _kernels(panel: Axes, found: Mapping[str, Any]) -> None:
    """Draw App. E.1: the trace of the tangent kernel against the width."""
    panel.plot(found["widths"], found["standard"], "o-", color=AWARE, label="metric of θ, carried to ψ")
    panel.plot(found["widths"], found["ntk"], "o-", color=NAIVE, label="Euclidean in ψ (NTK)")
    panel.axhline(found["limit"], color=MUTED, linestyle=":", label="infinite width")
    panel.set(xscale="log", yscale="log", xlabel="width h", title="trace of the tangent kernel")
    panel.set_ylim(found["limit"] / 2, 30 * max(found["standard"]))
    panel.set_xticks(found["widths"], [str(width) for width in found["widths"]])
    _plain_numbers(panel)
    panel.legend(loc="upper left")


def _plain_numbers(panel: Axes) -> None:
    """Label a logarithmic axis by texts that need no mathematical typesetting."""
    panel.minorticks_off()
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
