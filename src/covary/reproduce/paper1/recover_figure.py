"""The picture of the study `recover`: how widths came about, what they do to an image, how wide they became."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...records import Study
from ...records.words import plain_name
from ...report.figures import flow
from ...report.svg import COLORS, INK, MUTED, style

SHADES = ("#1b1f24", "#7d8793", "#c3ccd5")  # of samples, which have no colors of their own
LEAST_REACH = 0.6  # of every axis: noise on data without a symmetry should look like noise


def recover_figure(study: Study) -> Figure:
    """A column per version: widths over epochs with the true amounts dotted, the flow of samples, bars of the widths.

    Widths are in their own units: radians, halves of the image, log-scale.
    """
    versions = {row["version"]: _version(row, study) for row in study.rows if row["version"] in study.series}
    colors = _colors(versions)
    with style():
        figure = Figure(figsize=(0.6 + 2.4 * len(versions), 7.0), layout="constrained")
        panels = figure.subplots(3, len(versions), squeeze=False)
        for column, (version, found) in zip(panels.T, versions.items(), strict=True):
            _trajectories(column[0], found, colors)
            _flows(column[1], found["matrices"][: len(SHADES)])
            _bars(column[2], found, colors)
            column[0].set_title(version)
        for panel in panels[2, 1:]:
            panel.set_yticklabels([])
        panels[0, 0].set_ylabel("width")
        panels[1, 0].set_ylabel("where content moves")
        panels[2, 0].set_ylabel("learned")
        handles = [Line2D([], [], color=color) for color in colors.values()]
        dotted = Line2D([], [], color=MUTED, linestyle=":")
        labels = [*(plain_name(name) for name in colors), "true amount"]
        figure.legend([*handles, dotted], labels, loc="outside lower center", ncols=len(labels), handlelength=1.4)
    return figure


def _version(row: Mapping[str, Any], study: Study) -> dict[str, Any]:
    """What was kept of one version, with the widths of the state that was kept, not of the last epoch."""
    found = study.series[row["version"]]
    return found | {"learned": {name: row[name] for name in found["widths"]}}


def _colors(versions: Mapping[str, Any]) -> dict[str, str]:
    names = dict.fromkeys(name for found in versions.values() for name in found["widths"])
    return {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}


def _trajectories(panel: Axes, found: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    for name, widths in found["widths"].items():
        panel.plot(found["epochs"], widths, color=colors[name])
    for number, (name, true) in enumerate(found["true_widths"].items()):
        # two equal amounts, as of both shifts, take turns with their dots
        panel.axhline(true, color=colors[name], linestyle=(1.6 * number, (1, 2.2)))
    values = [width for widths in found["widths"].values() for width in widths]
    panel.set_ylim(0, 1.08 * max([LEAST_REACH, *values, *found["true_widths"].values()]))
    panel.set_xlabel("epoch")
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(4))


def _flows(panel: Axes, matrices: list[list[float]]) -> None:
    """Arrows from where content lies to where a sampled transform moves it, one shade for each sample."""
    for matrix, color in zip(matrices, SHADES, strict=False):
        start, moved = flow(matrix)
        panel.quiver(*start.T, *(moved - start).T, angles="xy", scale_units="xy", scale=1, color=color, width=0.011)
    if not matrices:
        panel.text(0, 0, "no affine\nsamples kept", ha="center", va="center", color=MUTED)
    panel.set(xlim=(-1.5, 1.5), ylim=(1.5, -1.5), xticks=[], yticks=[], aspect="equal")
    panel.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=MUTED, linewidth=0.8, linestyle="--")  # the image
    panel.grid(False)
    panel.spines[:].set_visible(False)


def _bars(panel: Axes, found: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    learned = found["learned"]
    reach = max([LEAST_REACH, *learned.values(), *found["true_widths"].values()])
    for place, (name, width) in enumerate(learned.items()):
        panel.barh(place, width, height=0.62, color=colors[name])
        true = found["true_widths"].get(name)
        if true is not None:
            panel.vlines(true, place - 0.42, place + 0.42, color=INK, linestyle=(0, (1, 1)))
        beyond = true is not None and width <= true < 1.3 * width  # the number would hide the true amount
        panel.text((true if beyond else width) + 0.04 * reach, place, f"{width:.2f}", va="center", color=INK)
    panel.set(xlim=(0, 1.25 * reach), ylim=(len(learned) - 0.4, -0.6), xlabel="width")
    panel.set_yticks(range(len(learned)), [plain_name(name) for name in learned])
    panel.tick_params(axis="y", length=0)
    panel.grid(False, axis="y")
    panel.xaxis.set_major_locator(MaxNLocator(4))
