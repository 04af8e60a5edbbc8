"""The picture of the study `sampling`: errors against the number of copies."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ...records import Study
from ...report.svg import COLORS, MUTED, style

NAMES = {"sobol": "Sobol", "two sets": "Sobol, two sets", "random": "independent"}
QUANTITIES = ("outputs", "hyper-gradient")


def sampling_figure(study: Study) -> Figure:
    """Relative errors of outputs and of the hyper-gradient against S, both scales logarithmic, with fitted slopes."""
    with style():
        figure = Figure(figsize=(8.0, 4.4), layout="constrained")
        panels: Sequence[Axes] = figure.subplots(1, len(QUANTITIES))
        for panel, quantity in zip(panels, QUANTITIES, strict=True):
            for color, sampler in zip(COLORS, NAMES, strict=False):
                _line(panel, study, quantity, sampler, color)
            sizes = sorted({row["S"] for row in study.rows})
            first = next(row[quantity] for row in study.rows if row["sampler"] == "random")
            panel.plot(sizes, first * np.sqrt(sizes[0] / np.array(sizes)), ":", color=MUTED, label="1/√S")
            panel.set(xscale="log", yscale="log", xlabel="samples S")
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
            panel.minorticks_off()
            panel.set_title(quantity)
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))
        panels[0].set_ylabel("relative error")
        figure.supxlabel(fill(study.series["conclusion"], 110), fontsize=8, color=MUTED)
    return figure


def _line(panel: Axes, study: Study, quantity: str, sampler: str, color: str) -> None:
    """The errors of one sampler with the slope that was fitted to them."""
    line = [(row["S"], row[quantity]) for row in study.rows if row["sampler"] == sampler]
    slope = study.series["slopes"][f"{quantity}, {sampler}"]
    panel.plot(*np.array(line).T, "o-", color=color, label=f"{NAMES[sampler]} (slope {slope:.2f})")
