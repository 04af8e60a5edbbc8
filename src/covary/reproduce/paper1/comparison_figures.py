"""The figures of networks side by side: accuracy and evidence, and what each learned, from the records of studies."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...records import Pictures, Study, from_plain
from ...records.words import plain_name
from ...report.figures import as_images
from ...report.svg import COLORS, MUTED, style
from .figures import trajectories, width_bars, width_colors

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
    """A dot and a line for each version, beside those of the other methods."""
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
    """The line of one method over numbers of images."""
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
    colors = width_colors(versions)
    with style():
        figure = Figure(figsize=(0.6 + 2.4 * len(versions), 7.0), layout="constrained")
        panels = figure.subplots(3, len(versions), squeeze=False)
        for column, (version, found) in zip(panels.T, versions.items(), strict=True):
            trajectories(column[0], found, colors)
            _pictures(column[1], found["samples"])
            width_bars(column[2], found, colors)
            column[0].set_title(version)
        for panel in panels[2, 1:]:
            panel.set_yticklabels([])
        for panel, label in zip(panels[:, 0], ("width", "given, and samples", "learned"), strict=True):
            panel.set_ylabel(label)
        handles = [*(Line2D([], [], color=color) for color in colors.values()), Line2D([], [], color=MUTED, ls=":")]
        labels = [*(plain_name(name) for name in colors), "true amount"]
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(len(labels), 2 * len(versions)), handlelength=1.4
        )
    return figure


def _drawable(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with the number of each of its epochs."""
    lengths = [len(widths) for widths in cell["widths"].values()]
    return dict(cell) | {"epochs": list(range(1, max(lengths, default=0) + 1))}


def _pictures(panel: Axes, samples: Mapping[str, Any] | None) -> None:
    """The image above, two rows of samples below."""
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
