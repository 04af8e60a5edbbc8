"""The picture of what each relaxed layer became: the learned architecture, layer by layer."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..records import Layer, RunRecord
from ..records.words import layer_names, short
from .figures import WIDTH, empty_figure
from .svg import COLORS, INK, style

# The same path has the same color in every report.
KNOWN = ("conv", "fc", "gconv", "f-fc", "s-fc", "s-conv")
LEAST_SHARE = 0.12  # of a bar, for its number to fit in


def architecture_figure(run: RunRecord) -> Figure:
    """A bar per layer from input to output, divided by the paths' relative effective numbers of parameters."""
    if not run.layers:
        return empty_figure("The network has no relaxed layers.")
    colors = _colors(run.layers)
    with style():
        figure = Figure(figsize=(WIDTH, 1.15 + 0.27 * len(run.layers)), layout="constrained")
        panel = figure.subplots()
        shares = [{path.name: path.relative for path in layer.paths} for layer in run.layers]
        divided_bars(panel, layer_names(run), shares, colors)
        panel.set_xlabel("share of γ/P in the layer, %")
        panel.xaxis.label.set_color(INK)
        handles = [Patch(color=color) for color in colors.values()]
        labels = [short(name, 12) for name in colors]
        figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1.0)
    return figure


def divided_bars(
    panel: Axes, names: Sequence[str], layers: Sequence[Mapping[str, float]], colors: Mapping[str, str]
) -> None:
    """A bar per layer from input to output, divided by the shares of its paths, with the number of each that has room.

    Arguments:
        panel: Where to draw.
        names: What to call each layer.
        layers: The share of each path of each layer, between 0 and 1, by the path's name.
        colors: A color per path.
    """
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


def _colors(layers: Sequence[Layer]) -> dict[str, str]:
    """A color per path, in the order in which paths appear."""
    names = list(dict.fromkeys(path.name for layer in layers for path in layer.paths))
    order = [*KNOWN, *(name for name in names if name not in KNOWN)]
    return {name: COLORS[order.index(name) % len(COLORS)] for name in names}
