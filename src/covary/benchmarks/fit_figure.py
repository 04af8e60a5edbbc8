"""The figure of `covary bench fit`: test accuracy against the seconds of training."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

Row = Mapping[str, Any]
COLORS = {"plain": "0.55", "fixed": "C2", "augerino": "C0", "map": "0.55", "learned": "C3"}


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
            panel.plot(seconds, percent, label=row["method"], color=COLORS.get(row["method"]))
        panel.axhline(100 * chosen[0]["curve"][-1][1], color=COLORS.get(chosen[0]["method"]), linestyle="--", lw=0.8)
        panel.set_title(name, fontsize="medium")
        panel.set_xlabel("seconds")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="0.92")
        # the first epochs of all methods are far below the rest
        panel.set_ylim(bottom=max(0.0, 100 * min(row["curve"][-1][1] for row in chosen) - 20))
        panel.legend(frameon=False, loc="lower right")
    panels[0].set_ylabel("test accuracy in %")
    return figure
