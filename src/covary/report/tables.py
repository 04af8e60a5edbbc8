"""Tables of a run for the terminal; their text is shown as it is, never read as markup."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..records import Metrics, RunRecord
from ..records.words import layer_names, path_precision, plain_name, strength
from .comparison import comparability, comparison

NOTHING = "–"


def symmetries_table(run: RunRecord) -> Table:
    """What was learned: name, width, unit, what it means, how much that is."""
    shape = run.samples.shape if run.samples is not None else None
    rows = [
        [plain_name(s.name), f"{s.width:.3g}", s.unit, s.meaning, strength(s, shape), _true(run, s.name)]
        for s in run.symmetries
    ]
    return _table(["transform", ">width", "unit", "meaning", "amount", ">true"], rows)


def layers_table(run: RunRecord) -> Table:
    """What each relaxed layer became: a row per path, the learned one marked, with the layer's errors at its first."""
    turned = any(layer.turn_error is not None for layer in run.layers)
    rows = []
    for name, layer in zip(layer_names(run), run.layers, strict=True):
        errors = [_error(layer.shift_error), *([_error(layer.turn_error)] if turned else [])]
        for path in layer.paths:
            mark = " ◀" if path.name == layer.learned else " (off)" if path.off else ""
            numbers = [f"{100 * path.relative:.2f}", f"{path.effective:.1f}", str(path.num_params)]
            amounts = [path_precision(path.precisions), f"{path.weight_norm:.2g}"]
            rows.append([name, path.name + mark, *numbers, *amounts, *errors])
            name, errors = "", [""] * len(errors)  # said once for a layer
    heads = ["layer", "path", ">share %", ">γ", ">P", ">precision", ">norm", ">shift error"]
    return _table([*heads, ">turn error"] if turned else heads, rows)


def pruning_table(run: RunRecord) -> Table:
    """What taking switched-off paths out has changed: before and after."""
    rows: list[list[str]] = []
    if run.pruned is not None:
        done, before, after = run.pruned, run.pruned.evidence_before, run.pruned.evidence
        accuracies = [_percent(test.accuracy) if test else NOTHING for test in (run.test, done.test)]
        rows = [
            ["parameters", f"{done.num_params_before:,}", f"{done.num_params:,}"],
            ["log evidence per datum", *(f"{e.log_evidence / max(e.num_data, 1):.4f}" for e in (before, after))],
            ["test accuracy %", *accuracies],
            ["largest change of an output", NOTHING, f"{done.max_change:.2g}"],
            ["mean change", NOTHING, f"{done.mean_change:.2g}"],
            ["paths taken out", NOTHING, ", ".join(done.removed) or "none"],
            ["paths made stationary", NOTHING, ", ".join(done.replaced) or "none"],
        ]
    return _table(["pruned", ">before", "after"], rows)


def run_text(run: RunRecord) -> str:
    """The tables of what was learned as plain text, for `print`."""
    console = Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as captured:
        if run.symmetries or not run.layers:
            console.print(symmetries_table(run))
        if run.layers:
            console.print(layers_table(run))
    return captured.get().rstrip("\n")


def evidence_table(run: RunRecord) -> Table:
    """The log evidence of the kept state and its three terms, per datum and in total."""
    rows = []
    if run.evidence is not None:
        for name in ("log_likelihood", "log_prior", "log_volume", "log_evidence"):
            total = getattr(run.evidence, name)
            rows.append([name, f"{total / max(run.evidence.num_data, 1):.4f}", f"{total:.1f}"])
    return _table(["term", ">nats per datum", ">nats in total"], rows)


def metrics_table(run: RunRecord) -> Table:
    """Test metrics of the learned network and of the baselines, where they were run."""
    tested = [("learned", run.test, run.seconds), *((b.name, b.test, b.seconds) for b in run.baselines)]
    rows = [[name, *_metrics(test), f"{seconds:.0f}"] for name, test, seconds in tested]
    return _table(["network", ">accuracy %", ">nll", ">ece", ">test data", ">samples", ">seconds"], rows)


def comparison_table(runs: Sequence[RunRecord]) -> RenderableType:
    """Runs ranked by log evidence, after a sentence for each reason why the order may mean nothing."""
    rows = []
    for row in comparison(runs):
        nats = [
            row["log_evidence"],
            row["log_bayes_factor"],
            row["log_likelihood"],
            row["log_prior"],
            row["log_volume"],
        ]
        shown = [NOTHING if value is None else f"{value:.1f}" for value in nats]
        rows.append([_or_dash(row["rank"]), row["title"], *shown, _percent(row["accuracy"])])
    heads = [">rank", "run", ">log evidence", ">log Bayes factor", ">log-likelihood", ">log-prior", ">log-volume"]
    warnings = [Text(sentence, style="yellow") for sentence in comparability(runs)]
    return Group(*warnings, _table([*heads, ">accuracy %"], rows))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose columns stand to the right where their head starts with ">"."""
    table = Table()
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _metrics(test: Metrics | None) -> list[str]:
    if test is None:
        return [NOTHING] * 5
    ece = NOTHING if test.ece is None else f"{test.ece:.4f}"
    return [_percent(test.accuracy), f"{test.nll:.4f}", ece, str(test.num_data), str(test.num_samples)]


def _error(error: float | None) -> str:
    return NOTHING if error is None else f"{error:.2g}"


def _true(run: RunRecord, name: str) -> str:
    return f"{run.true_widths[name]:.3g}" if name in run.true_widths else NOTHING


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.2f}"


def _or_dash(value: object) -> str:
    return NOTHING if value is None else str(value)
