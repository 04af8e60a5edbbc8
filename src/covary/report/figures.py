"""Figures of what a run learned: widths, samples, flow, correlation, layers; and the comparison of several runs.

Each is as wide as a phone's screen, so that its text keeps its size there. A record without the numbers for a figure
gives a figure that says so.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..records import Layer, Pictures, RunRecord, Symmetry
from ..records.words import amount, kind, layer_names, plain_name, short, strength
from .svg import COLORS, INK, MUTED, PALE, style
from .tables import comparison

WIDTH = 3.6  # inches: 346 pixels, a phone's screen without its margins
LABEL = 18  # letters of a name beside a figure
# An axis of bars reaches at least this far, so that a negligible width looks like one.
LEAST_REACH = {"radians": 45.0, "half-widths": 12.5, "half-heights": 12.5, "log-scale": 25.0, "probability": 50.0}
MOST_IMAGES, MOST_VERSIONS, MOST_FLOWS = 8, 8, 6
KNOWN = ("conv", "fc", "gconv", "f-fc", "s-fc", "s-conv")  # the same path has the same color in every report
LEAST_SHARE = 0.12  # of a bar, for its number to fit inside


def widths_figure(run: RunRecord) -> Figure:
    """Bars of the learned widths, one axis per unit, hatched if not settled, with the true amounts if they are known.

    Example:
        >>> from covary.records import RunRecord, Symmetry
        >>> run = RunRecord("demo", symmetries=[Symmetry("rotation", 1.5, "radians", "±86°")])
        >>> widths_figure(run).axes[0].get_title(loc="left")
        '± degrees'
    """
    if not run.symmetries:
        return empty_figure("No widths were learned.")
    groups = by_kind(run.symmetries)
    with style():
        figure = Figure(figsize=(WIDTH, sum(_bars_height(len(group)) for group in groups.values())))
        figure.set_layout_engine("constrained")
        heights = [_bars_height(len(group)) for group in groups.values()]
        axes = figure.subplots(len(groups), squeeze=False, height_ratios=heights)[:, 0]
        for panel, (measure, group) in zip(axes, groups.items(), strict=True):
            _width_bars(panel, group, run)
            panel.set_title(short(measure, 22))
        if any(symmetry.name in run.true_widths for symmetry in run.symmetries):
            axes[-1].set_xlabel("◆ true amount", color=COLORS[1])
    return figure


def by_kind(symmetries: Sequence[Symmetry]) -> dict[str, list[Symmetry]]:
    """Symmetries by the unit in which their widths are drawn, in order."""
    groups: dict[str, list[Symmetry]] = {}
    for symmetry in symmetries:
        groups.setdefault(kind(symmetry.unit), []).append(symmetry)
    return groups


def _bars_height(number: int) -> float:
    return 0.75 + 0.27 * number


def _width_bars(panel: Axes, group: Sequence[Symmetry], run: RunRecord) -> None:
    places = range(len(group))
    values = [amount(symmetry.width, symmetry.unit) for symmetry in group]
    known = [amount(run.true_widths[s.name], s.unit) if s.name in run.true_widths else None for s in group]
    ends = [[amount(end, s.unit) for end in s.interval or [s.width]] for s in group]
    reach = max(
        [
            *(end for interval in ends for end in interval),
            *values,
            *(true for true in known if true is not None),
            LEAST_REACH.get(group[0].unit, 0.1),
        ]
    )
    shape = run.samples.shape if run.samples is not None else None
    colors = [PALE if strength(symmetry, shape) == "negligible" else COLORS[0] for symmetry in group]
    for bar, symmetry in zip(panel.barh(places, values, height=0.62, color=colors), group, strict=True):
        bar.set_gid(f"bar-{run.symmetries.index(symmetry)}")
        if symmetry.state != "settled":
            bar.set(hatch="////", edgecolor="white", linewidth=0)
    for place, value, true, interval in zip(places, values, known, ends, strict=True):
        if len(interval) == 2:
            panel.plot(interval, [place, place], "|-", color=INK, linewidth=1.2, markersize=7)
        panel.text(max(value, true or 0, *interval) + 0.04 * reach, place, f"{value:.3g}", va="center", color=INK)
        if true is not None:
            panel.plot([true], [place], "D", color=COLORS[1], markersize=5, markeredgecolor="white", clip_on=False)
    panel.set_xlim(0, 1.22 * reach)
    panel.set_ylim(len(group) - 0.4, -0.6)
    panel.set_yticks(places, [short(plain_name(symmetry.name), LABEL) for symmetry in group])
    panel.locator_params(axis="x", nbins=4)
    panel.tick_params(axis="y", length=0)
    panel.grid(False, axis="y")


def pictures_figure(run: RunRecord) -> Figure:
    """A grid of images: each row is one image, followed by samples of the learned augmentation.

    Example:
        >>> import base64
        >>> from covary.records import Pictures, RunRecord
        >>> turn = [0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        >>> pixels = base64.b64encode(bytes(range(32))).decode()
        >>> run = RunRecord("demo", samples=Pictures([1, 2, 1, 4, 4], pixels, ["7"], [turn]))
        >>> len(pictures_figure(run).axes[0].images)
        2
    """
    if run.samples is None:
        return empty_figure("No images were kept.")
    images = as_images(run.samples)[:MOST_IMAGES, : 1 + MOST_VERSIONS]
    num_images, num_columns, height, width = images.shape[:4]
    ratio, gap = height / width, 0.15  # the first column stands a little apart
    with style():
        cell = (WIDTH - 0.8) / (num_columns + gap)
        figure = Figure(figsize=(WIDTH, cell * ratio * num_images + 0.4), layout="constrained")
        panel = figure.subplots()
        for row, column in np.ndindex(num_images, num_columns):
            left, top = column + gap * (column > 0), row * ratio
            extent = (left, left + 0.94, top + 0.94 * ratio, top)
            panel.imshow(images[row, column], extent=extent, cmap="gray", vmin=0, vmax=255, interpolation="none")
        panel.set_xlim(0, num_columns + gap)
        panel.set_ylim(num_images * ratio, 0)
        panel.set_aspect("equal")
        labels = [short(label, 12) for label in run.samples.labels[:num_images]]
        panel.set_yticks([(row + 0.47) * ratio for row in range(num_images)], labels)
        middle = [0.47, 1 + gap + (num_columns - 1) / 2]
        panel.set_xticks(middle[: min(num_columns, 2)], ["given", "transformed"][: min(num_columns, 2)])
        panel.xaxis.tick_top()
        panel.tick_params(length=0)
        panel.grid(False)
        panel.spines[:].set_visible(False)
    return figure


def as_images(samples: Pictures) -> np.ndarray:
    """Bytes (n, 1 + s, height, width), with a last axis of 3 for color."""
    values = np.frombuffer(samples.values(), dtype=np.uint8).reshape(samples.shape)
    return values[:, :, 0] if samples.shape[2] == 1 else np.moveaxis(values, 2, -1)


def flow_figure(run: RunRecord) -> Figure:
    """Arrows that show how each sampled transform moves the points of the first image.

    Example:
        >>> import base64
        >>> from covary.records import Pictures, RunRecord
        >>> turn = [0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        >>> pixels = base64.b64encode(bytes(range(32))).decode()
        >>> run = RunRecord("demo", samples=Pictures([1, 2, 1, 4, 4], pixels, ["7"], [turn]))
        >>> len(flow_figure(run).axes)
        1
    """
    if run.samples is None or not run.samples.matrices:
        return empty_figure("Not all transforms are known to be affine: no flow.")
    matrices = run.samples.matrices[:MOST_FLOWS]
    image = as_images(run.samples)[0, 0]
    half = np.array(image.shape[1::-1]) / max(image.shape[:2])  # of width and height: a turn looks like one
    num_columns = min(3, len(matrices))
    num_rows = -(-len(matrices) // num_columns)
    with style():
        side = WIDTH / max(num_columns, 2)
        figure = Figure(figsize=(WIDTH, side * num_rows), layout="constrained")
        panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        for panel in panels[len(matrices) :]:
            panel.set_visible(False)
        for panel, matrix in zip(panels[: len(matrices)], matrices, strict=True):
            extent = (-half[0], half[0], half[1], -half[1])
            panel.imshow(255 - image, extent=extent, cmap="gray", vmin=-900, vmax=255, interpolation="none")
            start, moved = (half * points for points in flow(matrix))
            panel.quiver(
                *start.T, *(moved - start).T, angles="xy", scale_units="xy", scale=1, color=COLORS[0], width=0.014
            )
            panel.set(xlim=(-1.4, 1.4), ylim=(1.4, -1.4), xticks=[], yticks=[], aspect="equal")
            panel.grid(False)
            panel.spines[:].set_visible(False)
    return figure


def flow(matrix: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Points of a grid on [−1, 1]², (25, 2), and the points to which a transform moves them.

    The matrix maps output to input coordinates, so content moves by its inverse.
    """
    ticks = np.linspace(-0.9, 0.9, 5)
    start = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    points = np.concatenate([start, np.ones((len(start), 1))], 1)
    return start, (points @ np.linalg.pinv(np.reshape(matrix, (3, 3))).T)[:, :2]


def correlation_figure(run: RunRecord) -> Figure:
    """The learned correlation matrix of the transforms' coefficients.

    Example:
        >>> from covary.records import RunRecord, Symmetry
        >>> symmetries = [Symmetry(name, 0.2, "half-widths", "") for name in ("shift_x", "shift_y")]
        >>> run = RunRecord("demo", symmetries=symmetries, correlation=[[1.0, 0.4], [0.4, 1.0]])
        >>> [text.get_text() for text in correlation_figure(run).axes[0].texts]
        ['+1.00', '+0.40', '+0.40', '+1.00']
    """
    if not run.correlation:
        return empty_figure("No correlation was learned.")
    names = [short(plain_name(symmetry.name), LABEL) for symmetry in run.symmetries]
    values = np.array(run.correlation)
    with style():
        figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
        panel = figure.subplots()
        panel.imshow(values, cmap="PuOr", vmin=-1, vmax=1)
        size = 9 if len(names) < 6 else 7
        for (row, column), value in np.ndenumerate(values):
            ink = "white" if abs(value) > 0.65 else INK
            panel.text(column, row, f"{value:+.1f}" if size == 7 else f"{value:+.2f}", ha="center", va="center",
                       color=ink, size=size)  # fmt: skip
        panel.set_yticks(range(len(names)), names)
        panel.set_xticks(range(len(names)), names, rotation=90)
        panel.tick_params(length=0)
        panel.grid(False)
        panel.spines[:].set_visible(False)
    return figure


def architecture_figure(run: RunRecord) -> Figure:
    """A bar per layer, from input to output, divided by the relative effective parameters of its paths.

    Example:
        >>> from covary.records import Layer, LayerPath, RunRecord
        >>> paths = [LayerPath(name, 10, {}, 1.0, 5.0, 0.5, part, False) for name, part in (("fc", 0.2), ("conv", 0.8))]
        >>> run = RunRecord("demo", layers=[Layer("0", "conv", paths, None, None)])
        >>> [text.get_text() for text in architecture_figure(run).axes[0].texts]
        ['20', '80']
    """
    if not run.layers:
        return empty_figure("The network has no relaxed layers.")
    colors = _path_colors(run.layers)
    with style():
        figure = Figure(figsize=(WIDTH, 1.15 + 0.27 * len(run.layers)), layout="constrained")
        panel = figure.subplots()
        shares = [{path.name: path.relative for path in layer.paths} for layer in run.layers]
        divided_bars(panel, layer_names(run), shares, colors)
        panel.set_xlabel("% of the layer's γ/P")
        panel.xaxis.label.set_color(INK)
        handles = [Patch(color=color) for color in colors.values()]
        labels = [short(name, 12) for name in colors]
        figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1.0)
    return figure


def divided_bars(
    panel: Axes, names: Sequence[str], layers: Sequence[Mapping[str, float]], colors: Mapping[str, str]
) -> None:
    """Draw a bar per layer, from input to output, divided by the fractions of its paths."""
    for place, shares in enumerate(layers):
        left = 0.0
        for path, share in shares.items():
            width = 100 * share
            panel.barh(place, width, left=left, height=0.7, color=colors[path])
            if share >= LEAST_SHARE:
                center = left + width / 2
                panel.text(center, place, f"{width:.0f}", ha="center", va="center", fontsize=7.5, color="white")
            left += width
    panel.set_yticks(range(len(layers)), names)
    panel.set(xlim=(0, 100), ylim=(len(layers) - 0.4, -0.6))
    panel.tick_params(axis="y", length=0)
    panel.grid(False, axis="y")


def _path_colors(layers: Sequence[Layer]) -> dict[str, str]:
    """A color per path, in order of appearance."""
    names = list(dict.fromkeys(path.name for layer in layers for path in layer.paths))
    order = [*KNOWN, *(name for name in names if name not in KNOWN)]
    return {name: COLORS[order.index(name) % len(COLORS)] for name in names}


def comparison_figure(runs: Sequence[RunRecord]) -> Figure:
    """Log evidence per datum of several runs, the best first, each with its log Bayes factor against the best.

    Runs whose evidences cannot be compared keep their order, without ranks and Bayes factors.

    Example:
        >>> from covary.records import Evidence, RunRecord
        >>> evidence = Evidence(-400.0, -80.0, -20.0, -500.0, 1000, "kron", "exact")
        >>> runs = [RunRecord("plain"), RunRecord("learned", evidence=evidence)]
        >>> comparison_figure(runs).axes[0].texts[0].get_text()
        '1. learned (+0.0)'
    """
    rows = [row for row in comparison(runs) if row["log_evidence"] is not None]
    if not rows:
        return empty_figure("None of these runs has an evidence.")
    values = [row["log_evidence"] / row["num_data"] for row in rows]
    low, high = min(values), max(values)
    margin = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    with style():
        figure = Figure(figsize=(WIDTH, 0.9 + 0.5 * len(rows)), layout="constrained")
        panel = figure.subplots()
        panel.hlines(range(len(rows)), low - margin, values, color="#c9d3dc", linewidth=2)
        panel.plot(values, range(len(rows)), "o", color=COLORS[0], markersize=7)
        for place, row in enumerate(rows):
            title = short(row["title"], 34)
            if row["rank"] is not None:
                title = f"{row['rank']}. {title} ({row['log_bayes_factor']:+.1f})"
            panel.text(0, place - 0.22, title, transform=panel.get_yaxis_transform(), va="bottom", color=INK)
        panel.set(xlim=(low - margin, high + margin), ylim=(len(rows) - 0.6, -0.8), yticks=[])
        ranked = rows[0]["rank"] is not None
        against = "log Bayes factor against the best" if ranked else "these runs cannot be compared"
        panel.set_xlabel(f"log evidence per datum ({against})")
        panel.xaxis.label.set_fontsize(7.5)
        panel.locator_params(axis="x", nbins=4)
        panel.spines["left"].set_visible(False)
    return figure


def empty_figure(sentence: str) -> Figure:
    """A figure with one sentence, for a record without the numbers that would be drawn."""
    with style():
        figure = Figure(figsize=(WIDTH, 0.6))
        figure.text(0.02, 0.5, sentence, va="center", color=MUTED)
    return figure
