"""The picture of the study `toy`: what each model predicts, how sure it is, and what the evidence makes of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...records import Study
from ...report.svg import COLORS, INK, MUTED, style


def toy_figure(study: Study) -> Figure:
    """A column per model: predictive probability, deviation of the log-odds; below, evidence and width of all seeds.

    The maps are those of the first seed; a title holds the model, its log evidence and its rotation.
    """
    grids, rows = study.series["grids"], study.rows
    most = max(float(np.max(grid["deviation"])) for grid in grids.values())
    with style():
        figure = Figure(figsize=(2.3 * len(grids), 7.4), layout="constrained")
        halves = figure.add_gridspec(2, 1, height_ratios=[2, 1])
        above, below = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
        panels = above.subplots(2, len(grids), squeeze=False)
        for column, (name, grid) in zip(panels.T, grids.items(), strict=True):
            row = next(row for row in rows if row["panel"] == name)
            probability = _map(column[0], study, grid["probability"], "RdBu_r", 1.0)
            deviation = _map(column[1], study, grid["deviation"], "Grays", most)
            column[0].set_title(_title(row))
        above.colorbar(probability, ax=panels[0], label="probability of class 1", aspect=12)
        above.colorbar(deviation, ax=panels[1], label="deviation of log-odds", aspect=12)
        evidences, widths = below.subplots(1, 2)
        _evidences(evidences, study, list(grids))
        _widths(widths, study)
    return figure


def _title(row: Mapping[str, Any]) -> str:
    rotation = "" if row["degrees"] is None else f", ±{row['degrees']:.0f}°"
    return f"{row['panel']}\n{row['log_evidence']:.1f} nats{rotation}"


def _map(panel: Axes, study: Study, values: list[list[float]], colors: str, most: float) -> Any:
    """A map over the plane with the training points on it."""
    axis = study.series["axis"]
    drawn = panel.pcolormesh(axis, axis, values, cmap=colors, vmin=0, vmax=most, shading="nearest", rasterized=True)
    points, labels = np.array(study.series["points"]), np.array(study.series["labels"])
    for label, color in enumerate((COLORS[0], COLORS[1])):
        panel.plot(*points[labels == label].T, "o", color=color, markersize=2.5, markeredgecolor="white",
                   markeredgewidth=0.3)  # fmt: skip
    panel.set(xlim=(axis[0], axis[-1]), ylim=(axis[0], axis[-1]), xticks=[], yticks=[], aspect="equal")
    panel.grid(False)
    return drawn


def _evidences(panel: Axes, study: Study, names: list[str]) -> None:
    """The log evidence of every seed, one line each."""
    for seed in dict.fromkeys(row["seed"] for row in study.rows):
        values = [row["log_evidence"] for row in study.rows if row["seed"] == seed]
        panel.plot(range(len(names)), values, "o-", color=MUTED, linewidth=0.7)
    panel.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
    panel.set_title("log evidence (full GGN), a line per seed")
    panel.set_ylabel("nats")
    panel.grid(False, axis="x")


def _widths(panel: Axes, study: Study) -> None:
    """The rotation over epochs, a line per seed, against the true one."""
    trajectories = study.series["trajectories"]
    colors = dict(zip(dict.fromkeys(line["panel"] for line in trajectories), (COLORS[0], COLORS[1]), strict=False))
    for line in trajectories:
        panel.plot(range(1, len(line["degrees"]) + 1), line["degrees"], color=colors[line["panel"]], linewidth=1.0)
    panel.axhline(study.config["true_degrees"], color=INK, linestyle=":")
    handles = [Line2D([], [], color=color) for color in colors.values()]
    panel.legend([*handles, Line2D([], [], color=INK, linestyle=":")], [*colors, "true"], loc="lower right")
    panel.set_title("learned rotation in degrees, a line per seed")
    panel.set_xlabel("epoch")
    panel.set_ylim(bottom=0)
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
