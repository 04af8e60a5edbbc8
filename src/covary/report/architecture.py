"""The picture of what each relaxed layer became: the learned architecture, layer by layer."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..records import Layer, Run
from .figures import WIDTH, empty_figure
from .svg import COLOURS, INK, style
from .words import layer_names, short

__all__ = ["architecture_figure"]

# The same path has the same colour in every report.
KNOWN = ("conv", "fc", "gconv", "f-fc", "s-fc", "s-conv")
LEAST_SHARE = 0.1  # of a bar, for its number to fit in


def architecture_figure(run: Run) -> Figure:
    """A bar per layer from input to output, divided by the paths' relative effective numbers of parameters."""
    if not run.layers:
        return empty_figure("The network has no relaxed layers.")
    colours = _colours(run.layers)
    with style():
        figure = Figure(figsize=(WIDTH, 1.15 + 0.27 * len(run.layers)), layout="constrained")
        panel = figure.subplots()
        for place, layer in enumerate(run.layers):
            left = 0.0
            for path in layer.paths:
                share = 100 * path.relative
                panel.barh(place, share, left=left, height=0.66, color=colours[path.name])
                if path.relative >= LEAST_SHARE:
                    panel.text(left + share / 2, place, f"{share:.0f}", ha="center", va="center", color="white")
                left += share
        panel.set_yticks(range(len(run.layers)), layer_names(run))
        panel.set(xlim=(0, 100), ylim=(len(run.layers) - 0.4, -0.6))
        panel.set_xlabel("share of γ/P in the layer, %")
        panel.tick_params(axis="y", length=0)
        panel.grid(False, axis="y")
        panel.xaxis.label.set_color(INK)
        handles = [Patch(color=colour) for colour in colours.values()]
        labels = [short(name, 12) for name in colours]
        figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1.0)
    return figure


def _colours(layers: Sequence[Layer]) -> dict[str, str]:
    """A colour per path, in the order in which paths appear."""
    names = list(dict.fromkeys(path.name for layer in layers for path in layer.paths))
    order = [*KNOWN, *(name for name in names if name not in KNOWN)]
    return {name: COLOURS[order.index(name) % len(COLOURS)] for name in names}
