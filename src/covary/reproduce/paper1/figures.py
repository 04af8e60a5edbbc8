"""The figures of paper 1, each drawn from the record of its study."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ...records import Pictures, Study, from_plain
from ...records.words import plain_name
from ...report.figures import as_images, flow
from ...report.svg import COLORS, INK, MUTED, style

SHADES = ("#1b1f24", "#7d8793", "#c3ccd5")  # of samples, which have no colors of their own
MIN_REACH = 0.6  # of every axis: noise on data without a symmetry should look like noise
SAMPLERS = {"sobol": "Sobol", "two sets": "Sobol, two sets", "random": "independent"}
ERRORS = ("outputs", "hyper-gradient")


def toy_figure(study: Study) -> Figure:
    """A column per model: predictive probability, deviation of the log-odds; below, evidence and width of all seeds.

    The maps are those of the first seed; a title holds the model, its log evidence and its rotation.
    """
    grids, rows = study.series["grids"], study.rows
    largest = max(float(np.max(grid["deviation"])) for grid in grids.values())
    with style():
        figure = Figure(figsize=(2.3 * len(grids), 7.4), layout="constrained")
        halves = figure.add_gridspec(2, 1, height_ratios=[2, 1])
        above, below = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
        panels = above.subplots(2, len(grids), squeeze=False)
        for column, (name, grid) in zip(panels.T, grids.items(), strict=True):
            row = next(row for row in rows if row["panel"] == name)
            probability = _map(column[0], study, grid["probability"], "RdBu_r", 1.0)
            deviation = _map(column[1], study, grid["deviation"], "Grays", largest)
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


def _map(panel: Axes, study: Study, values: list[list[float]], colors: str, largest: float) -> Any:
    """A map over the plane with the training points on it."""
    axis = study.series["axis"]
    drawn = panel.pcolormesh(axis, axis, values, cmap=colors, vmin=0, vmax=largest, shading="nearest", rasterized=True)
    points, labels = np.array(study.series["points"]), np.array(study.series["labels"])
    for label, color in enumerate((COLORS[0], COLORS[1])):
        panel.plot(*points[labels == label].T, "o", color=color, markersize=2.5, markeredgecolor="white",
                   markeredgewidth=0.3)  # fmt: skip
    panel.set(xlim=(axis[0], axis[-1]), ylim=(axis[0], axis[-1]), xticks=[], yticks=[], aspect="equal")
    panel.grid(False)
    return drawn


def _evidences(panel: Axes, study: Study, names: list[str]) -> None:
    """Draw the log evidence of every seed, one line each."""
    for seed in dict.fromkeys(row["seed"] for row in study.rows):
        values = [row["log_evidence"] for row in study.rows if row["seed"] == seed]
        panel.plot(range(len(names)), values, "o-", color=MUTED, linewidth=0.7)
    panel.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
    panel.set_title("log evidence (full GGN), a line per seed")
    panel.set_ylabel("nats")
    panel.grid(False, axis="x")


def _widths(panel: Axes, study: Study) -> None:
    """Draw the rotation over epochs, a line per seed, against the true one."""
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


def recover_figure(study: Study) -> Figure:
    """A column per version: widths over epochs with the true amounts dotted, the flow of samples, bars of the widths.

    Widths are in their own units: radians, halves of the image, log-scale.
    """
    versions = {row["version"]: _version(row, study) for row in study.rows if row["version"] in study.series}
    return _by_version(versions, "where content moves", lambda panel, found: _flows(panel, found["matrices"]))


def _version(row: Mapping[str, Any], study: Study) -> dict[str, Any]:
    """The series of one version, with the widths of the best epoch, not of the last one."""
    found = study.series[row["version"]]
    return found | {"learned": {name: row[name] for name in found["widths"]}}


def _by_version(
    versions: Mapping[str, Mapping[str, Any]], label: str, draw: Callable[[Axes, Mapping[str, Any]], None]
) -> Figure:
    """A column per version: widths over epochs above, bars of the widths below, and what is drawn between them."""
    colors = width_colors(versions)
    with style():
        figure = Figure(figsize=(0.6 + 2.4 * len(versions), 7.0), layout="constrained")
        panels = figure.subplots(3, len(versions), squeeze=False)
        for column, (version, found) in zip(panels.T, versions.items(), strict=True):
            trajectories(column[0], found, colors)
            draw(column[1], found)
            width_bars(column[2], found, colors)
            column[0].set_title(version)
        for panel in panels[2, 1:]:
            panel.set_yticklabels([])
        for panel, name in zip(panels[:, 0], ("width", label, "learned"), strict=True):
            panel.set_ylabel(name)
        handles = [*(Line2D([], [], color=color) for color in colors.values()), Line2D([], [], color=MUTED, ls=":")]
        labels = [*(plain_name(name) for name in colors), "true amount"]
        num_columns = min(len(labels), 2 * len(versions))
        figure.legend(handles, labels, loc="outside lower center", ncols=num_columns, handlelength=1.4)
    return figure


def width_colors(versions: Mapping[str, Any]) -> dict[str, str]:
    """A color for each width."""
    names = dict.fromkeys(name for found in versions.values() for name in found["widths"])
    return {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}


def trajectories(panel: Axes, found: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    """Draw widths over epochs, with the true amounts dotted."""
    for name, widths in found["widths"].items():
        panel.plot(found["epochs"], widths, color=colors[name])
    for number, (name, true) in enumerate(found["true_widths"].items()):
        # two equal amounts, such as of both shifts, have alternating dots
        panel.axhline(true, color=colors[name], linestyle=(1.6 * number, (1, 2.2)))
    values = [width for widths in found["widths"].values() for width in widths]
    panel.set_ylim(0, 1.08 * max([MIN_REACH, *values, *found["true_widths"].values()]))
    panel.set_xlabel("epoch")
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(4))


def _flows(panel: Axes, matrices: list[list[float]]) -> None:
    """Draw arrows from each place to where a sampled transform moves it, one shade for each sample."""
    for matrix, color in zip(matrices, SHADES, strict=False):  # the first few
        start, moved = flow(matrix)
        panel.quiver(*start.T, *(moved - start).T, angles="xy", scale_units="xy", scale=1, color=color, width=0.011)
    if not matrices:
        panel.text(0, 0, "no affine\nsamples kept", ha="center", va="center", color=MUTED)
    panel.set(xlim=(-1.5, 1.5), ylim=(1.5, -1.5), xticks=[], yticks=[], aspect="equal")
    panel.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=MUTED, linewidth=0.8, linestyle="--")  # the image
    panel.grid(False)
    panel.spines[:].set_visible(False)


def width_bars(panel: Axes, found: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    """Draw a bar for each learned width, with the true amounts dotted."""
    learned = found["learned"]
    reach = max([MIN_REACH, *learned.values(), *found["true_widths"].values()])
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


def sampling_figure(study: Study) -> Figure:
    """Relative errors of outputs and of the hyper-gradient against S on logarithmic scales, with fitted exponents."""
    with style():
        figure = Figure(figsize=(8.0, 4.4), layout="constrained")
        panels: Sequence[Axes] = figure.subplots(1, len(ERRORS))
        for panel, quantity in zip(panels, ERRORS, strict=True):
            for color, sampler in zip(COLORS, SAMPLERS, strict=False):
                _error_line(panel, study, quantity, sampler, color)
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


def _error_line(panel: Axes, study: Study, quantity: str, sampler: str, color: str) -> None:
    """Draw the errors of one sampler with the exponent that was fitted to them."""
    line = [(row["S"], row[quantity]) for row in study.rows if row["sampler"] == sampler]
    exponent = study.series["exponents"][f"{quantity}, {sampler}"]
    panel.plot(*np.array(line).T, "o-", color=color, label=f"{SAMPLERS[sampler]} (exponent {exponent:.2f})")


QUANTITIES = {"accuracy": "test accuracy in %", "evidence": "log evidence per datum in nats"}
OFFSET = 0.2  # between methods

Cells = Sequence[Mapping[str, Any]]


def table_figure(study: Study) -> Figure:
    """Test accuracy above, log evidence per datum below: a dot for the mean over seeds, a line from minimum to maximum.

    A method without an evidence has no dot below.
    """
    cells: Cells = study.series["cells"]
    versions, methods = (list(dict.fromkeys(cell[key] for cell in cells)) for key in ("version", "method"))
    with style():
        figure = Figure(figsize=(1.2 + 1.25 * len(versions), 5.2), layout="constrained")
        panels = figure.subplots(len(QUANTITIES), sharex=True)
        for panel, (quantity, label) in zip(panels, QUANTITIES.items(), strict=True):
            for number, method in enumerate(methods):
                shift = OFFSET * (number - (len(methods) - 1) / 2)
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


def _values(cells: Cells, version: str, quantity: str) -> list[float]:
    """One number per seed; none for a method without it."""
    chosen = [cell for cell in cells if cell["version"] == version]
    if quantity == "accuracy":
        return [100 * cell["test"]["accuracy"] for cell in chosen]
    known = [cell["evidence"] for cell in chosen if cell["evidence"] is not None]
    return [evidence["log_evidence"] / evidence["num_data"] for evidence in known]


def _spread(panel: Axes, values: Sequence[Sequence[float]], shift: float, number: int, method: str) -> None:
    """Draw a dot and a line for each version, beside those of the other methods."""
    known = [(place + shift, found) for place, found in enumerate(values) if found]
    places = [place for place, _ in known]
    means = [sum(found) / len(found) for _, found in known]
    color = COLORS[number % len(COLORS)]
    panel.plot(places, means, "o", color=color, markersize=6, label=method)
    panel.vlines(places, [min(found) for _, found in known], [max(found) for _, found in known], color=color)


def sizes_figure(study: Study) -> Figure:
    """Test accuracy against the number of images: a row per network, a column per version, a line per method.

    A dot is the mean over seeds, a vertical line reaches from the minimum to the maximum.
    """
    cells: Cells = study.series["cells"]
    networks, versions, methods = (
        list(dict.fromkeys(c[key] for c in cells)) for key in ("network", "version", "method")
    )
    with style():
        figure = Figure(figsize=(1.0 + 3.0 * len(versions), 0.6 + 2.4 * len(networks)), layout="constrained")
        panels = figure.subplots(len(networks), len(versions), squeeze=False)
        for row, network in zip(panels, networks, strict=True):
            for panel, version in zip(row, versions, strict=True):
                chosen = [cell for cell in cells if (cell["network"], cell["version"]) == (network, version)]
                for number, method in enumerate(methods):
                    _sizes(panel, [cell for cell in chosen if cell["method"] == method], COLORS[number], method)
                panel.set_title(f"{network}, {version}")
        for panel in panels[-1]:
            panel.set_xlabel("training images")
        for panel in panels[:, 0]:
            panel.set_ylabel("test accuracy in %")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=len(methods))
    return figure


def _sizes(panel: Axes, cells: Cells, color: str, method: str) -> None:
    """Draw the line of one method over numbers of images."""
    numbers = sorted({cell["num_train"] for cell in cells})
    found = [[100 * cell["test"]["accuracy"] for cell in cells if cell["num_train"] == number] for number in numbers]
    panel.plot(numbers, [sum(values) / len(values) for values in found], "o-", color=color, label=method)
    panel.vlines(numbers, [min(values) for values in found], [max(values) for values in found], color=color)
    panel.set_xscale("log")
    panel.set_xticks(numbers, [f"{number:,}" for number in numbers])
    panel.minorticks_off()


def invariances_figure(study: Study) -> Figure:
    """What the learned networks of the first seed became (App. C and D), a column per version.

    From above: widths over epochs with the true amounts dotted, an image with samples of the learned augmentation, and
    the widths of the network that was kept.
    """
    cells: Cells = [cell for cell in study.series["cells"] if cell["method"] == "learned"]
    versions = {cell["version"]: _drawable(cell) for cell in reversed(cells)}
    versions = {name: versions[name] for name in dict.fromkeys(cell["version"] for cell in cells)}
    if not versions:
        return _empty("No augmentation was learned in this study: the method 'learned' was left out.")
    return _by_version(versions, "given, and samples", lambda panel, found: _pictures(panel, found["samples"]))


def _empty(sentence: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    with style():
        figure = Figure(figsize=(6.0, 1.0))
        figure.text(0.5, 0.5, sentence, ha="center", va="center", color=MUTED)
    return figure


def _drawable(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with the number of each of its epochs."""
    lengths = [len(widths) for widths in cell["widths"].values()]
    return dict(cell) | {"epochs": list(range(1, max(lengths, default=0) + 1))}


def _pictures(panel: Axes, samples: Mapping[str, Any] | None) -> None:
    """Draw the image above, two rows of samples below."""
    panel.set(xticks=[], yticks=[], aspect="equal")
    panel.grid(False)
    panel.spines[:].set_visible(False)
    if samples is None:
        panel.text(0.5, 0.5, "no images\nwere kept", ha="center", va="center", color=MUTED)
        return
    given, *others = as_images(from_plain(dict(samples), Pictures, "samples"))[0]
    places = [(1.0, 0.0), *((float(i % 3), 1.1 + i // 3) for i in range(len(others)))]
    for image, (left, top) in zip([given, *others], places, strict=True):
        extent = (left, left + 0.94, top + 0.94, top)
        panel.imshow(image, extent=extent, cmap="gray", vmin=0, vmax=255, interpolation="none")
    panel.set(xlim=(-0.05, 3.0), ylim=(3.1, -0.05))
