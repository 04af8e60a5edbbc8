"""The figures of `covary bench`: time and memory against size, and test accuracy against the seconds of training."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Row = Mapping[str, Any]
COLORS = {"training": "C0", "one probe": "C1", "exact": "C3", "stochastic bound": "C2", "learning": "C4"}
AXIS_NAMES = {
    "N": "data N",
    "S": "samples S",
    "C": "outputs C",
    "hidden": "hidden units (weights P)",
    "epoch": "data N of an epoch",
}


def scaling_figure(rows: Sequence[Row]) -> Figure:
    """Seconds against each axis above, megabytes below if they were measured; both scales logarithmic."""
    axes_names = list(dict.fromkeys(row["axis"] for row in rows))
    figure = Figure(figsize=(3.4 * len(axes_names), 6.2), layout="constrained")
    panels = figure.subplots(2, len(axes_names), squeeze=False)
    for column, axis in enumerate(axes_names):
        chosen = [row for row in rows if row["axis"] == axis]
        _draw(panels[0][column], chosen, "seconds")
        measured = [row for row in chosen if row["peak_mb"] is not None]
        if measured:
            _draw(panels[1][column], measured, "peak_mb")
        else:
            panels[1][column].axis("off")
        for panel in panels[:, column]:
            panel.set_xlabel(AXIS_NAMES.get(axis, axis))
    panels[0][0].set_ylabel("seconds")
    panels[1][0].set_ylabel("peak memory in MB")
    entries = {
        label: line for panel in panels[0] for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries), frameon=False)
    return figure


def _draw(panel: Axes, rows: Sequence[Row], quantity: str) -> None:
    for name in dict.fromkeys(row["pass"] for row in rows):
        line = [row for row in rows if row["pass"] == name]
        sizes, values = [row["size"] for row in line], [row[quantity] for row in line]
        panel.plot(sizes, values, "o-", label=name, color=COLORS.get(name))
    panel.set_xscale("log")
    ticks = sorted({row["size"] for row in rows})
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    if quantity == "seconds":
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="0.92")


METHOD_COLORS = {"plain": "0.55", "fixed": "C2", "augerino": "C0", "map": "0.55", "learned": "C3"}


def fit_figure(rows: Sequence[Row]) -> Figure:
    """One panel per workload, one line per method; the dashed line is the accuracy that Augerino ends with."""
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure = Figure(figsize=(4.4 * len(names), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        chosen = [row for row in rows if row["workload"] == name]
        for row in chosen:
            seconds, accuracies = zip(*row["curve"], strict=True)
            percent = [100 * accuracy for accuracy in accuracies]
            panel.plot(seconds, percent, label=row["method"], color=METHOD_COLORS.get(row["method"]))
        panel.axhline(
            100 * chosen[0]["curve"][-1][1], color=METHOD_COLORS.get(chosen[0]["method"]), linestyle="--", lw=0.8
        )
        panel.set_title(name, fontsize="medium")
        panel.set_xlabel("seconds")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="0.92")
        # the first epochs of all methods are far below the rest
        panel.set_ylim(bottom=max(0.0, 100 * min(row["curve"][-1][1] for row in chosen) - 20))
        panel.legend(frameon=False, loc="lower right")
    panels[0].set_ylabel("test accuracy in %")
    return figure
