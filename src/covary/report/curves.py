"""Figures of the course of a run over its epochs: widths, evidence, precisions."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ..records import Epoch, Evidence, RunRecord
from ..records.words import amount, ending, plain_name, short
from .figures import WIDTH, by_kind, empty_figure
from .svg import COLORS, INK, MUTED, style

TERMS = {
    "log_evidence": "log evidence",
    "log_likelihood": "log-likelihood: fit",
    "log_prior": "log-prior: cost of the weights",
    "log_volume": "log-volume: posterior volume",
}
MOST_GROUPS = 24
BURN_IN, HELD = "#f1ece2", "#e6edf2"


def burn_in(run: RunRecord) -> int:
    """The number of recorded epochs before the first hyper step; 0 without any hyper step."""
    steps = [epoch.epoch for epoch in run.history if epoch.evidence is not None]
    return min(steps) - run.history[0].epoch if steps else 0


def held_fixed(run: RunRecord) -> int:
    """The number of recorded epochs at the end in which no width changed; 0 if none changed before either."""
    changed = [number for number, (a, b) in enumerate(pairwise(run.history), start=1) if a.widths != b.widths]
    return len(run.history) - 1 - changed[-1] if changed else 0


def trajectories_figure(run: RunRecord) -> Figure:
    """Widths over epochs, one panel per unit; true amounts are dotted, burn-in and widths held fixed are shaded.

    Example:
        >>> from covary.records import Epoch, RunRecord, Symmetry
        >>> epochs = [Epoch(n, -0.5, {"rotation": 0.1 * n}, {"all": 2.0 / n}, None, None, 1.0, False) for n in (1, 2)]
        >>> run = RunRecord("demo", symmetries=[Symmetry("rotation", 0.2, "radians", "±11°")], history=epochs)
        >>> len(trajectories_figure(run).axes)
        1
    """
    if not run.history or not run.symmetries:
        return empty_figure("No epochs were recorded.")
    groups = by_kind(run.symmetries)
    colors = {symmetry.name: COLORS[i % len(COLORS)] for i, symmetry in enumerate(run.symmetries)}
    with style():
        num_rows = -(-(len(colors) + 3) // 2)
        figure = Figure(figsize=(WIDTH, 1.45 * len(groups) + 0.22 * num_rows + 0.3), layout="constrained")
        axes = figure.subplots(len(groups), sharex=True, squeeze=False)[:, 0]
        for panel, (measure, group) in zip(axes, groups.items(), strict=True):
            for symmetry in group:
                line = [(e.epoch, amount(e.widths[symmetry.name], symmetry.unit))
                        for e in run.history if symmetry.name in e.widths]  # fmt: skip
                panel.plot(*_columns(line), "-", color=colors[symmetry.name], marker=_marker(line))
                if symmetry.name in run.true_widths:
                    true = amount(run.true_widths[symmetry.name], symmetry.unit)
                    panel.axhline(true, color=colors[symmetry.name], linestyle=":")
            panel.set_title(short(measure, 34))
            panel.set_ylim(bottom=0)
        _epochs(axes, run)
        if held := held_fixed(run):
            for panel in axes:
                end = run.history[-1].epoch + 0.5
                panel.axvspan(end - held, end, color=HELD, zorder=0, linewidth=0)
        handles = [Line2D([], [], color=color) for color in colors.values()]
        labels = [short(plain_name(name), 18) for name in colors]
        figure.legend(*_with_marks(handles, labels, run), loc="outside lower left", ncols=2, handlelength=1.4)
    return figure


def _with_marks(handles: list[Line2D], labels: list[str], run: RunRecord) -> tuple[list[Line2D | Patch], list[str]]:
    """The legend's lines, then the entries for true amounts and shaded epochs if they are drawn."""
    marks: list[tuple[Line2D | Patch, str]] = []
    if any(symmetry.name in run.true_widths for symmetry in run.symmetries):
        marks.append((Line2D([], [], color=MUTED, linestyle=":"), "true amount"))
    if burn_in(run):
        marks.append((Patch(color=BURN_IN), "burn-in"))
    if held_fixed(run):
        marks.append((Patch(color=HELD), "held fixed"))
    return [*handles, *(mark for mark, _ in marks)], [*labels, *(label for _, label in marks)]


def evidence_figure(run: RunRecord) -> Figure:
    """Log evidence per datum and its three terms over epochs: estimates as a line, evaluations as dots.

    Example:
        >>> from covary.records import Epoch, Evidence, RunRecord
        >>> evidence = Evidence(-400.0, -80.0, -20.0, -500.0, 1000, "kron", "exact")
        >>> run = RunRecord("demo", history=[Epoch(1, -0.4, {}, {}, evidence, evidence, 1.0, True)])
        >>> len(evidence_figure(run).axes)
        4
    """
    estimates = [(epoch.epoch, epoch.evidence) for epoch in run.history if epoch.evidence is not None]
    evaluations = [(epoch.epoch, epoch.evaluated) for epoch in run.history if epoch.evaluated is not None]
    if not estimates and not evaluations:
        return empty_figure("No epoch has an evidence.")
    kept = _kept(run.history)
    with style():
        figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
        axes = figure.subplots(len(TERMS), sharex=True)
        for panel, (term, title), color in zip(axes, TERMS.items(), COLORS, strict=False):
            line = _per_datum(estimates, term)
            panel.plot(*_columns(line), "-", color=color, marker=_marker(line))
            panel.plot(*_columns(_per_datum(evaluations, term)), "o", color=INK)
            chosen = _per_datum([pair for pair in evaluations if pair[0] == kept], term)
            if chosen:  # an unclipped line without points has no extent: the layout would collapse
                panel.plot(*_columns(chosen), "*", color=COLORS[1], markersize=11, clip_on=False)
            panel.set_title(title)
        _epochs(axes, run)
        marks = {
            "estimate of a hyper step": (Line2D([], [], color=MUTED), bool(estimates)),
            "evaluation": (Line2D([], [], color=INK, marker="o", linestyle=""), bool(evaluations)),
            "selected": (Line2D([], [], color=COLORS[1], marker="*", markersize=9, linestyle=""), bool(chosen)),
        }
        shown = {label: mark for label, (mark, there) in marks.items() if there}
        figure.legend(shown.values(), shown.keys(), loc="outside lower left", ncols=2, handlelength=1.4)
        figure.supylabel("nats per datum, higher is better", size=8.5, color=MUTED)
    return figure


def _kept(history: Sequence[Epoch]) -> int | None:
    """The epoch whose state was selected: the last that was the best so far."""
    best = [epoch.epoch for epoch in history if epoch.best]
    return best[-1] if best else None


def _per_datum(evidences: Sequence[tuple[int, Evidence]], term: str) -> list[tuple[int, float]]:
    return [(epoch, getattr(evidence, term) / max(evidence.num_data, 1)) for epoch, evidence in evidences]


def _columns(pairs: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [epoch for epoch, _ in pairs], [value for _, value in pairs]


def _marker(pairs: Sequence[tuple[int, float]]) -> str:
    return "o" if len(pairs) == 1 else ""  # a line through one point is invisible


def _epochs(axes: Iterable[Axes], run: RunRecord) -> None:
    first, last = run.history[0].epoch, run.history[-1].epoch
    shaded = burn_in(run)
    for panel in axes:
        if shaded:
            panel.axvspan(first - 0.5, first - 0.5 + shaded, color=BURN_IN, zorder=0, linewidth=0)
        panel.set_xlim(first - 0.5, last + 0.5)
        panel.yaxis.set_major_locator(MaxNLocator(4))
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.set_xlabel("epoch")


def precisions_figure(run: RunRecord) -> Figure:
    """The prior precision of each group: a dot at the last epoch, a line from the first.

    Example:
        >>> from covary.records import Epoch, RunRecord, Symmetry
        >>> epochs = [Epoch(n, -0.5, {"rotation": 0.1 * n}, {"all": 2.0 / n}, None, None, 1.0, False) for n in (1, 2)]
        >>> run = RunRecord("demo", symmetries=[Symmetry("rotation", 0.2, "radians", "±11°")], history=epochs)
        >>> precisions_figure(run).axes[0].get_xscale()
        'log'
    """
    if not run.history or not run.history[-1].precisions:
        return empty_figure("No precisions were recorded.")
    last = dict(list(run.history[-1].precisions.items())[:MOST_GROUPS])
    drawn = {name: value for name, value in last.items() if value > 0}
    if not drawn:
        return empty_figure("No precision is above 0.")
    first = run.history[0].precisions
    with style():
        figure = Figure(figsize=(WIDTH, 0.8 + 0.24 * len(drawn)), layout="constrained")
        panel = figure.subplots()
        for place, (name, value) in enumerate(drawn.items()):
            start = first.get(name, value)
            panel.plot([start if start > 0 else value, value], [place, place], color="#9fc4dd", linewidth=3)
            panel.plot([value], [place], "o", color=COLORS[0], markersize=6)
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(numticks=5))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.set_yticks(range(len(drawn)), [ending(name, 27) for name in drawn])
        panel.set_ylim(len(drawn) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0)
        left_out = len(run.history[-1].precisions) - len(drawn)
        panel.set_xlabel("precision" + (f"; {left_out} more in run.json" if left_out else ""))
    return figure
