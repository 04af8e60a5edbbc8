"""The picture of the study `mnist-mlp`: methods side by side, on each version of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...records import Study
from ...report.svg import COLORS, style

QUANTITIES = {"accuracy": "test accuracy in %", "evidence": "log evidence per datum in nats"}
BESIDE = 0.2  # how far methods stand apart


def table_figure(study: Study) -> Figure:
    """Test accuracy above, log evidence per datum below: a dot for the mean over seeds, a line from least to most.

    A method without an evidence has no dot there.
    """
    cells: Sequence[Mapping[str, Any]] = study.series["cells"]
    versions, methods = (list(dict.fromkeys(cell[key] for cell in cells)) for key in ("version", "method"))
    with style():
        figure = Figure(figsize=(1.2 + 1.25 * len(versions), 5.2), layout="constrained")
        panels = figure.subplots(len(QUANTITIES), sharex=True)
        for panel, (quantity, label) in zip(panels, QUANTITIES.items(), strict=True):
            for number, method in enumerate(methods):
                shift = BESIDE * (number - (len(methods) - 1) / 2)
                chosen = [cell for cell in cells if cell["method"] == method]
                _spread(panel, [_values(chosen, version, quantity) for version in versions], shift, number, method)
            panel.set_ylabel(label)
            panel.grid(False, axis="x")
        panels[-1].set_xticks(range(len(versions)), versions)
        panels[-1].tick_params(axis="x", length=0)
        panels[-1].set_xlim(-0.5, len(versions) - 0.5)
        num_seeds = len({cell["seed"] for cell in cells})
        panels[0].set_title(f"mean and range over {num_seeds} seeds" if num_seeds > 1 else "one seed")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(methods))
    return figure


def _values(cells: Sequence[Mapping[str, Any]], version: str, quantity: str) -> list[float]:
    """One number per seed; none for a method that has no such number."""
    chosen = [cell for cell in cells if cell["version"] == version]
    if quantity == "accuracy":
        return [100 * cell["accuracy"] for cell in chosen]
    return [cell["log_evidence"] / cell["num_data"] for cell in chosen if cell["log_evidence"] is not None]


def _spread(panel: Axes, values: Sequence[Sequence[float]], shift: float, number: int, method: str) -> None:
    """A dot and a line for each version, beside those of the other methods."""
    known = [(place + shift, found) for place, found in enumerate(values) if found]
    places = [place for place, _ in known]
    means = [sum(found) / len(found) for _, found in known]
    color = COLORS[number % len(COLORS)]
    panel.plot(places, means, "o", color=color, markersize=6, label=method)
    panel.vlines(places, [min(found) for _, found in known], [max(found) for _, found in known], color=color)
