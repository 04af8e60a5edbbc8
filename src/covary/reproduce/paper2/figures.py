"""The figures of paper 2: accuracies by method, and effective parameters of the paths of each layer."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ...records import Study
from ...report.figures import KNOWN, divided_bars
from ...report.svg import COLORS, INK, MUTED, PALE, style

METHODS = {"MAP": PALE, "evidence": MUTED}  # grays: colors are for paths
PATHS = {name: COLORS[number] for number, name in enumerate(KNOWN)}
THICK = 0.38  # of a bar; two are side by side
OFFSET = 0.2  # between paths

Cells = Sequence[Mapping[str, Any]]


def quadrant_figure(study: Study) -> Figure:
    """Test accuracy of each network by each method, a panel per task; dotted, a quarter of CONV's on the first."""
    cells: Cells = study.series["cells"]
    tasks = _names(cells, "data")
    strict = [cell["test"]["accuracy"] for cell in _where(cells, data=tasks[0], network="CONV")]
    with style():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, len(tasks), sharey=True)
        for panel, task in zip(panels, tasks, strict=True):
            _accuracies(panel, _where(cells, data=task), "network")
            panel.set_title(task)
        panels[-1].axhline(25 * max(strict), color=MUTED, linestyle=":")
        panels[-1].set_ylabel("")
        dotted = Line2D([], [], color=MUTED, linestyle=":")
        _legend(figure, {"a quarter of CONV's on the digit": dotted})
    return figure


def cifar_layers_figure(study: Study) -> Figure:
    """Test accuracy and loss of each network by each method, then the paths' effective parameters in each layer."""
    cells: Cells = study.series["cells"]
    relaxed = [cell for cell in _first(cells) if any(len(layer["paths"]) > 1 for layer in cell["layers"])]
    with style():
        figure = Figure(figsize=(7.2, 7.4), layout="constrained")
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.7, 1.1))[:, 0]
        upper, lower = above.subplots(2, sharex=True)
        _accuracies(upper, cells, "network")
        _losses(lower, cells, "network")
        for column, cell in zip(below.subplots(1, len(relaxed), sharey=True, squeeze=False)[0], relaxed, strict=True):
            _shares(column, cell["layers"])
            column.set_title(_wrapped(cell["network"]))
        names = dict.fromkeys(path["name"] for cell in relaxed for path in cell["layers"][0]["paths"])
        below.supxlabel("% of the layer's effective parameters", fontsize=8.5, color=MUTED)
        _legend(figure, {name: Patch(color=PATHS[name]) for name in names})
    return figure


def groups_figure(study: Study) -> Figure:
    """Test accuracy and loss by each method on each data set; below, effective parameters: mean and range of layers."""
    cells: Cells = study.series["cells"]
    learned = [cell for cell in _first(cells) if cell["layers"]]
    names = [path["name"] for path in learned[0]["layers"][0]["paths"]]
    with style():
        figure = Figure(figsize=(7.2, 7.2), layout="constrained")
        upper, lower, below = figure.subplots(3)
        _accuracies(upper, cells, "data")
        _losses(lower, cells, "data")
        for number, name in enumerate(names):
            shift = OFFSET * (number - (len(names) - 1) / 2)
            _spread(below, [_relative(cell, name) for cell in learned], shift, name)
        below.set_xticks(range(len(learned)), [_wrapped(cell["data"]) for cell in learned])
        below.set(ylim=(-3, 103), xlim=(-0.5, len(learned) - 0.5), ylabel="% of a layer's effective parameters")
        below.tick_params(axis="x", length=0)
        below.grid(False, axis="x")
        _legend(figure, {name: Line2D([], [], marker="o", color=PATHS[name]) for name in names})
    return figure


def separable_figure(study: Study) -> Figure:
    """Test accuracy against the number of parameters at the width of the table, here and in the paper."""
    cells: Cells = study.series["cells"]
    parameters = study.series["parameters"]
    found = {cell["network"]: 100 * cell["test"]["accuracy"] for cell in cells}
    with style():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for panel, title, values in zip(panels, ("here", "paper"), (found, study.series["paper"]), strict=True):
            for number, (name, value) in enumerate(values.items()):
                panel.plot(parameters[name], value, "o", color=COLORS[number], markersize=7, label=name)
            panel.set(xscale="log", xlabel=f"parameters at α = {study.series['alpha']}")
            panel.set_xticks([1e5, 2e5, 5e5, 1e6], ["0.1 M", "0.2 M", "0.5 M", "1 M"])
            panel.minorticks_off()
            panel.set_title(title)
            panel.margins(0.15)
        panels[0].set_ylabel("test accuracy in %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), handlelength=1.0)
    return figure


def _names(cells: Cells, key: str) -> list[str]:
    return list(dict.fromkeys(cell[key] for cell in cells))


def _where(cells: Cells, **wanted: str) -> Cells:
    return [cell for cell in cells if all(cell[key] == value for key, value in wanted.items())]


def _first(cells: Cells) -> Cells:
    """The cells of the first seed; those of earlier records have none."""
    seeds = [cell.get("seed", 0) for cell in cells]
    return [cell for cell, seed in zip(cells, seeds, strict=True) if seed == seeds[0]]


def _accuracies(panel: Axes, cells: Cells, along: str) -> None:
    """Draw bars of the test accuracy in %."""
    _bars(panel, cells, along, [100 * cell["test"]["accuracy"] for cell in cells], ".1f")
    panel.set(ylim=(0, 112), yticks=range(0, 101, 20), ylabel="test accuracy in %")


def _losses(panel: Axes, cells: Cells, along: str) -> None:
    """Draw bars of the test loss in nats."""
    heights = [cell["test"]["nll"] for cell in cells]
    _bars(panel, cells, along, heights, ".2f")
    panel.set(ylim=(0, 1.15 * max(heights)), ylabel="test loss")


def _bars(panel: Axes, cells: Cells, along: str, heights: Sequence[float], digits: str) -> None:
    """Draw the mean over seeds as a bar with its number, and a line from minimum to maximum; methods side by side."""
    places = _names(cells, along)
    grouped: dict[tuple[str, str], list[float]] = {}
    for cell, height in zip(cells, heights, strict=True):
        grouped.setdefault((cell[along], cell["method"]), []).append(height)
    for (name, method), values in grouped.items():
        place, height = places.index(name) + THICK * (list(METHODS).index(method) - 0.5), sum(values) / len(values)
        panel.bar(place, height, width=0.9 * THICK, color=METHODS[method])
        panel.vlines(place, min(values), max(values), color=INK, linewidth=0.8)
        panel.annotate(
            format(height, digits),
            (place, height),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=INK,
        )
    panel.set_xticks(range(len(places)), [_wrapped(place) for place in places])
    panel.set(xlim=(-0.5, len(places) - 0.5))
    panel.tick_params(axis="x", length=0)
    panel.grid(False, axis="x")


def _shares(panel: Axes, layers: Sequence[Mapping[str, Any]]) -> None:
    """Draw a bar per layer, divided by the paths' effective parameters, with few ticks."""
    shares = [{path["name"]: path["relative"] for path in layer["paths"]} for layer in layers]
    divided_bars(panel, [f"layer {number + 1}" for number in range(len(layers))], shares, PATHS)
    panel.set_xticks((0, 50, 100))


def _relative(cell: Mapping[str, Any], name: str) -> list[float]:
    """One path's effective parameters in each layer, in %."""
    return [100 * path["relative"] for layer in cell["layers"] for path in layer["paths"] if path["name"] == name]


def _spread(panel: Axes, values: Sequence[Sequence[float]], shift: float, name: str) -> None:
    """Draw a dot for the mean and a line from minimum to maximum, at each place."""
    places = [place + shift for place in range(len(values))]
    panel.plot(places, [sum(found) / len(found) for found in values], "o", color=PATHS[name], markersize=6)
    panel.vlines(places, [min(found) for found in values], [max(found) for found in values], color=PATHS[name])


def _legend(figure: Figure, others: Mapping[str, Any]) -> None:
    """Draw the methods' colors, then the other entries."""
    handles = {method: Patch(color=color) for method, color in METHODS.items()} | dict(others)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), handlelength=1.2)


def _wrapped(name: str) -> str:
    """A name on two lines if it has two words."""
    return name.replace(", ", "\n") if ", " in name else name.replace(" ", "\n", 1)
