"""Table and figure of `covary geometry`: which numbers depend on the coordinates of a network."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from rich.table import Table
from rich.text import Text

from ..records import Study
from ..report.svg import COLORS, INK, style

QUANTITIES = ("trace", "eigenvalue", "log evidence")
KINDS = {"naive": COLORS[1], "metric-aware": COLORS[0]}


def geometry_table(study: Study) -> Table:
    """The numbers of each chart, naive and metric-aware, with their 95 % errors."""
    table = Table(title=Text(study.title))
    for column in ("chart", "kind", *QUANTITIES):
        table.add_column(column, justify="right" if column in QUANTITIES else "left")
    for row in study.rows:
        amounts = [_amount(row[key], row[f"{key} ±"]) for key in QUANTITIES]
        table.add_row(*(Text(cell) for cell in (row["chart"], row["kind"], *amounts)))
    return table


def geometry_figure(study: Study) -> Figure:
    """The trace, the largest eigenvalues and the log evidence in each chart, naive and metric-aware."""
    with style():
        figure = Figure(figsize=(8.4, 3.4), layout="constrained")
        traces, eigenvalues, evidences = figure.subplots(1, 3)
        _bars(traces, study, "trace")
        traces.set(yscale="log", title="trace of the curvature")
        _eigenvalues(eigenvalues, study)
        _bars(evidences, study, "log evidence")
        evidences.set(title="log evidence, nats")
        for panel in (traces, eigenvalues, evidences):
            panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        traces.minorticks_off()
        eigenvalues.minorticks_off()
        handles, labels = traces.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(KINDS))
    return figure


def _amount(value: float, error: float) -> str:
    """A number to the second digit of its error, with at most four decimals."""
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 4) if error > 0 else 4
    return f"{value:,.{decimals}f} ± {error:,.{decimals}f}"


def _bars(panel: Axes, study: Study, key: str) -> None:
    """Draw a mark with its 95 % error for each chart and kind."""
    charts = list(dict.fromkeys(row["chart"] for row in study.rows))
    for kind, color in KINDS.items():
        rows = [row for row in study.rows if row["kind"] == kind]
        values, errors = [row[key] for row in rows], [row[f"{key} ±"] for row in rows]
        panel.errorbar(range(len(rows)), values, errors, fmt="o-", color=color, capsize=3, label=kind)
        for place, value in enumerate(values):
            panel.annotate(f"{value:.5g}", (place, value), (0, 7), textcoords="offset points", ha="center", color=INK)
    panel.set_xticks(range(len(charts)), charts)
    panel.margins(x=0.4, y=0.25)


def _eigenvalues(panel: Axes, study: Study) -> None:
    for name, found in study.series["eigenvalues"].items():
        chart, kind = name.split(", ")
        places = 1 + np.arange(len(found["value"]))
        marker = "o-" if chart == "Cartesian" else "x--"
        panel.plot(places, found["value"], marker, color=KINDS[kind], label=name)
    panel.set(yscale="log", title="largest eigenvalues", xlabel="number (dashed: polar)")
    panel.set_xticks(places)
