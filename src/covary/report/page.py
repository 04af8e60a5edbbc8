"""The report of a run: one HTML file without scripts, links or other files."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from .._files import write_text
from .._text import plural
from ..records import Baseline, Metrics, RunRecord, words
from ..records.checksums import sealed_page
from ..records.summary import summary, verdict_sentences
from ..records.tables import no_errors_text, noise_text, role_rows, verdict_rows
from .curves import burn_in, evidence_figure, held_fixed, precisions_figure, trajectories_figure
from .figures import architecture_figure, correlation_figure, flow_figure, pictures_figure, widths_figure
from .svg import svg

TERMS = {
    "log_likelihood": "log-likelihood (fit)",
    "log_prior": "log-prior",
    "log_volume": "log-volume",
    "log_evidence": "log evidence (sum)",
}


PARTS = {
    "weights": "weight steps",
    "hyper": "hyperparameters: hyper steps on the evidence",
    "evaluation": "evaluations of the evidence, error bars",
    "test": "test",
}


class Drawing(NamedTuple):
    """A figure of the page: its SVG, its label and its caption."""

    name: str
    svg: Markup
    label: str
    caption: str


def write_page(run: RunRecord, path: Path) -> None:
    """Write the report of a run to an HTML file, atomically; its last line states its checksum.

    Arguments:
        run: The record of the run.
        path: The file.

    Example:
        >>> import tempfile
        >>> from covary.records import RunRecord
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(RunRecord("demo"), Path(folder) / "report.html")
    """
    write_text(path, sealed_page(page(run), asdict(run)))


def page(run: RunRecord) -> str:
    """The report of a run as the text of an HTML file.

    Example:
        >>> from covary.records import RunRecord
        >>> "<title>demo – covary</title>" in page(RunRecord("demo"))
        True
    """
    environment = Environment(
        loader=PackageLoader("covary.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": _words,
        "plain_name": words.plain_name,
        "duration": _duration,
        "precision": words.path_precision,
        "plural": plural,
    }
    return environment.get_template("template.html").render(
        run=run,
        summary=summary(run),
        threshold=words.THRESHOLD,
        settled=words.SETTLED,
        off=words.OFF,
        strengths=[words.strength(symmetry, run.samples.shape if run.samples else None) for symmetry in run.symmetries],
        intervals=[words.interval(symmetry, run.samples.shape if run.samples else None) for symmetry in run.symmetries],
        no_errors=no_errors_text(run).splitlines(),
        figures=_figures(run),
        settings=words.flat_settings(run.config),
        terms=_terms(run),
        tested=_tested(run),
        times=_times(run),
        plain=_plain_seconds(run),
        noise=noise_text(run).splitlines(),
        roles=role_rows(run)[1],
        verdicts=verdict_rows(run)[1],
        compared=verdict_sentences(run),
        layers=list(zip(words.layer_names(run), run.layers, strict=True)),
    )


def _figures(run: RunRecord) -> dict[str, Drawing]:
    """The figures that the record has numbers for, by name."""
    drawn: list[Drawing] = []
    if run.symmetries:
        bars = "Learned widths, one bar per transform" + (", ◆ the true amount" if run.true_widths else "")
        settled = all(symmetry.state == "settled" for symmetry in run.symmetries)
        bars += "; lines are 90 % intervals" if any(symmetry.interval for symmetry in run.symmetries) else ""
        bars += "." if settled else "; hatched where it is not settled."
        drawn.append(_drawing("widths", widths_figure(run), bars))
    if run.layers:
        caption = "The learned architecture, from input to output: the fraction of each path in each layer."
        drawn.append(_drawing("architecture", architecture_figure(run), caption))
    if run.history and run.symmetries:
        first = "epoch (shaded) trains" if burn_in(run) == 1 else f"{burn_in(run)} epochs (shaded) train"
        shaded = f" The first {first} the weights only." if burn_in(run) else ""
        shaded += " At the end (shaded) widths are held fixed." if held_fixed(run) else ""
        drawn.append(_drawing("trajectories", trajectories_figure(run), "Widths after each epoch." + shaded))
    if run.history and run.history[-1].precisions:
        caption = "Prior precision of each group of weights: a line from the first epoch, a dot at the last."
        drawn.append(_drawing("precisions", precisions_figure(run), caption))
    if run.samples is not None:
        caption = "Images, followed by samples of the learned augmentation: the labels stay the same."
        drawn.append(_drawing("pictures", pictures_figure(run), caption))
        if run.samples.matrices:
            caption = "How each sampled transform moves the points of the first image, along the arrows."
            drawn.append(_drawing("flow", flow_figure(run), caption))
    if any(epoch.evidence or epoch.evaluated for epoch in run.history):
        caption = (
            "Log evidence per datum and its three terms over epochs. Higher is better; the sum is what is maximized."
        )
        drawn.append(_drawing("evidence", evidence_figure(run), caption))
    if run.correlation:
        caption = "Correlation of the transforms' coefficients: far from 0, they occur together."
        drawn.append(_drawing("correlation", correlation_figure(run), caption))
    return {drawing.name: drawing for drawing in drawn}


def _drawing(name: str, figure: Figure, caption: str) -> Drawing:
    # Safe by construction: matplotlib escapes the text of an SVG.
    return Drawing(name, Markup(svg(figure, name)), f"Figure: {caption}", caption)


def _terms(run: RunRecord) -> list[tuple[str, float, float]]:
    """The evidence and its terms: label, nats per datum, nats in total."""
    if run.evidence is None:
        return []
    totals = [(label, getattr(run.evidence, name)) for name, label in TERMS.items()]
    return [(label, total / max(run.evidence.num_data, 1), total) for label, total in totals]


def _times(run: RunRecord) -> list[tuple[str, float, float]]:
    """Where the time went: label, seconds, and their part of all; empty where it was not recorded."""
    if not run.timings or run.seconds <= 0:
        return []
    known = {label: run.timings.get(name, 0.0) for name, label in PARTS.items()}
    known["data, checkpoints and the rest"] = max(run.seconds - sum(known.values()), 0.0)
    return [(label, seconds, seconds / run.seconds) for label, seconds in known.items()]


def _plain_seconds(run: RunRecord) -> float | None:
    """The time of training without an augmentation, where that was a baseline."""
    return next((other.seconds for other in run.baselines if other.name == "plain" and other.seconds > 0), None)


def _tested(run: RunRecord) -> list[dict[str, Any]]:
    """One row per network that was tested, with the names of the metrics in which it is the best."""
    learned = Baseline("learned", run.symmetries, run.evidence, run.test, run.seconds, len(run.history) or None)
    named = [other for other in (learned, *run.baselines) if other.test is not None]
    tests = [other.test for other in named if other.test is not None]
    return [
        {
            "name": other.name,
            "averaged": bool(other.symmetries) or (other.test is not None and other.test.num_samples > 1),
            "test": other.test,
            "evidence": other.evidence,
            "seconds": other.seconds,
            "epochs": other.epochs,
            "best": _best(other.test, tests),
        }
        for other in named
    ]


def _best(test: Metrics | None, tests: Sequence[Metrics]) -> set[str]:
    """Metrics in which no other is better; empty if there is no other."""
    if test is None or len(tests) < 2:
        return set()
    best = {"nll"} if test.nll <= min(other.nll for other in tests) else set()
    if test.accuracy is not None and test.accuracy >= max(other.accuracy or 0.0 for other in tests):
        best.add("accuracy")
    if test.ece is not None and test.ece <= min(1.0 if other.ece is None else other.ece for other in tests):
        best.add("ece")
    if test.rmse is not None and test.rmse <= min(other.rmse for other in tests if other.rmse is not None):
        best.add("rmse")
    return best


def _words(value: Any) -> str:
    """A setting as text: strings without quotes, anything else as JSON."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
