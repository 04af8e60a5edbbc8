"""Tables of runs for the terminal, whose text is never read as markup, and the comparison of several runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..records import Evidence, Metrics, RunRecord
from ..records.tables import ABSENT, symmetry_rows
from ..records.words import spelled

# Settings that determine the data of a run: evidences of different data cannot be compared.
DATA_SETTINGS = ("data", "num_train", "symmetrize", "task")
WHOLE_MATRIX = "the whole Gauss–Newton matrix"
SCORES = {"accuracy": "accuracy %", "rmse": "rmse"}
DECISIVE = 2.0  # standard errors of a difference between evidences, from which one model is better
WHOLE = 16  # characters of a cell that are kept in one line


def symmetries_table(run: RunRecord) -> Table:
    """The learned transforms: name, width with its standard error, by how much, state and the true width, if known.

    On a terminal of 80 characters only "by how much" is broken into lines. The summary says which amounts are slight.
    """
    heads, rows = symmetry_rows(run)
    cells = [dict(zip(heads, row, strict=True)) for row in rows]
    for row in cells:
        error = row.get(">± error", ABSENT)
        row[">width"] += "" if error == ABSENT else f" ± {error}"
    kept = ["transform", ">width", "meaning", "state", *([">true"] if ">true" in heads else [])]
    shown = [head.replace("meaning", "by how much") for head in kept]
    return table(shown, [[row[head] for head in kept] for row in cells], broken="by how much")


def pruning_table(run: RunRecord) -> Table:
    """The network before and after pruning."""
    rows: list[list[str]] = []
    if run.pruned is not None:
        done, before, after = run.pruned, run.pruned.evidence_before, run.pruned.evidence
        accuracies = [_percent(test.accuracy) if test else ABSENT for test in (run.test, done.test)]
        rows = [
            ["parameters", f"{done.num_params_before:,}", f"{done.num_params:,}"],
            ["log evidence per datum", *(f"{e.log_evidence / max(e.num_data, 1):.4f}" for e in (before, after))],
            ["test accuracy %", *accuracies],
            ["largest change of an output", ABSENT, f"{done.max_change:.2g}"],
            ["mean change", ABSENT, f"{done.mean_change:.2g}"],
            ["removed paths", ABSENT, ", ".join(done.removed) or "none"],
            ["paths replaced by stationary ones", ABSENT, ", ".join(done.replaced) or "none"],
        ]
    return table(["pruned", ">before", "after"], rows)


def evidence_table(run: RunRecord) -> Table:
    """The log evidence of the selected state and its three terms, per datum and in total."""
    rows = []
    if run.evidence is not None:
        for name in ("log_likelihood", "log_prior", "log_volume", "log_evidence"):
            total = getattr(run.evidence, name)
            rows.append([name, f"{total / max(run.evidence.num_data, 1):.4f}", f"{total:,.1f}"])
    return table(["term", ">nats per datum", ">nats in total"], rows)


def metrics_table(run: RunRecord) -> Table:
    """Test metrics of the learned network and of the baselines; on a narrow terminal only names are broken."""
    tested = [("learned", run.test, run.seconds, len(run.history) or None)]
    tested += [(other.name, other.test, other.seconds, other.epochs) for other in run.baselines]
    numbers = any(test is not None and test.rmse is not None for _, test, _, _ in tested)
    rows = [
        [name, *_metrics(test, numbers), f"{seconds:.0f}", *([_count(epochs)] if run.baselines else [])]
        for name, test, seconds, epochs in tested
    ]
    scores = [">rmse", ">nll"] if numbers else [">accuracy %", ">nll", ">ece"]
    heads = ["network", *scores, ">samples", ">seconds"]
    made = table([*heads, ">epochs"] if run.baselines else heads, rows, broken="network")
    made.caption = None if run.test is None else f"{run.test.num_data:,} test data"
    return made


def comparison(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """One row per run, the highest log evidence first, those without an evidence last.

    `log_bayes_factor` is the log evidence minus that of the best: 0 for the best, negative for all others. Where the
    evidences cannot be compared the runs keep their order, and rank and Bayes factor are None. `within_error` is
    whether a corrected evidence is less than two standard errors of the difference below the best.

    Example:
        >>> from covary.records import Evidence, RunRecord
        >>> evidence = Evidence(-400.0, -80.0, -20.0, -500.0, 1000, "kron", "exact")
        >>> runs = [RunRecord("plain"), RunRecord("learned", evidence=evidence)]
        >>> [(row["title"], row["log_bayes_factor"]) for row in comparison(runs)]
        [('learned', 0.0), ('plain', None)]
    """
    ranked = not _differences(runs)
    order = list(runs)
    if ranked:
        order.sort(key=lambda run: (run.evidence is None, -run.evidence.log_evidence if run.evidence else 0.0))
    best = order[0].evidence.log_evidence if order and order[0].evidence else 0.0
    tied = {run.title for run in _tied(order)} if ranked else set()
    rows = []
    for number, run in enumerate(order, 1):
        known = run.evidence
        rows.append(
            {
                "rank": number if known and ranked else None,
                "title": run.title,
                "log_evidence": known and known.log_evidence,
                "log_bayes_factor": known.log_evidence - best if known and ranked else None,
                "log_likelihood": known and known.log_likelihood,
                "log_prior": known and known.log_prior,
                "log_volume": known and known.log_volume,
                "num_data": known and known.num_data,
                "curvature": known and known.curvature,
                "corrected_by": known and known.corrected_by,
                "standard_error": known and known.standard_error,
                "within_error": run.title in tied,
                "accuracy": run.test and run.test.accuracy,
                "rmse": run.test and run.test.rmse,
                "complete": run.complete,
            }
        )
    return rows


def comparability(runs: Sequence[RunRecord]) -> list[str]:
    """Reasons why the evidences of these runs cannot be compared, or not yet, one sentence each; empty if they can.

    Example:
        >>> from covary.records import Evidence, RunRecord
        >>> evidence = Evidence(-400.0, -80.0, -20.0, -500.0, 1000, "kron", "exact")
        >>> runs = [RunRecord("plain"), RunRecord("learned", evidence=evidence)]
        >>> comparability(runs)
        ["'plain' has no evidence and is listed last."]
    """
    warnings = [f"'{run.title}' has no evidence and is listed last." for run in runs if run.evidence is None]
    warnings += [f"'{run.title}' is incomplete: its evidence may rise." for run in runs if not run.complete]
    return warnings + _differences(runs)


def undecided(runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each run whose evidence is below the best by less than the error of the difference."""
    if _differences(runs):
        return []
    order = sorted((run for run in runs if run.evidence), key=lambda run: -_evidence_of(run).log_evidence)
    found = []
    for run in _tied(order):
        gap = _evidence_of(order[0]).log_evidence - _evidence_of(run).log_evidence
        error = _error_of_gap(order[0], run)
        found.append(
            f"Undecided between '{order[0].title}' and '{run.title}': {gap:.1f} nats are within the error of "
            f"±{DECISIVE * error:.1f}. More probes lower it."
        )
    return found


def _tied(order: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs, ordered by evidence, that are below the first by less than the error of the difference."""
    known = [run for run in order if run.evidence is not None]
    best = _evidence_of(known[0]).log_evidence if known else 0.0
    return [run for run in known[1:] if best - _evidence_of(run).log_evidence < DECISIVE * _error_of_gap(known[0], run)]


def _error_of_gap(first: RunRecord, second: RunRecord) -> float:
    return math.hypot(*(_evidence_of(run).standard_error or 0.0 for run in (first, second)))


def _evidence_of(run: RunRecord) -> Evidence:
    assert run.evidence is not None, "runs without an evidence are not compared"
    return run.evidence


def _differences(runs: Sequence[RunRecord]) -> list[str]:
    """Differences between runs by which their evidences are of different things."""
    known = [run.evidence for run in runs if run.evidence is not None]
    runs = [run for run in runs if run.evidence is not None]
    differing = {
        "are of different numbers of data": {str(evidence.num_data) for evidence in known},
        # a corrected evidence is that of the whole matrix, whatever it was corrected from
        "use different curvatures": {e.curvature if e.corrected_by is None else WHOLE_MATRIX for e in known},
        "use different probes": {e.probes if e.corrected_by is None else WHOLE_MATRIX for e in known},
        "are in different parametrizations": {str(run.config.get("parametrization", "Cartesian")) for run in runs},
    }
    differing |= _data_differences(runs)
    return [
        f"The runs {difference} ({', '.join(f'{value:.60}' for value in sorted(found))}): their evidences cannot be "
        "compared and are not ranked."
        for difference, found in differing.items()
        if len(found) > 1
    ]


def _data_differences(runs: Sequence[RunRecord]) -> dict[str, set[str]]:
    """The values by which data differ: none where the SHA-256 of the data are equal, however they are named."""
    sums = {repr(run.config.get("data_sha256")) for run in runs}
    if len(sums) == 1 and sums != {"None"}:
        return {}
    # the seed draws the images of `num_train`, the transforms of `symmetrize`, and the quadrants of a task
    made = ("symmetrize", "task")
    drawn = any(run.config.get("num_train") or any(run.config.get(s, "none") != "none" for s in made) for run in runs)
    settings = (*DATA_SETTINGS, "seed") if drawn else DATA_SETTINGS
    found = {f"have different data, by the setting {name}": {_shown(run, name) for run in runs} for name in settings}
    alike = all(len(values) == 1 for values in found.values())
    # other numbers of the same images have other sums
    if (
        alike
        and "None" not in sums
        and all(len({_shown(run, name) for run in runs}) == 1 for name in ("dtype", "size"))
    ):
        return {"have different data, by their SHA-256": sums}
    return found


def _shown(run: RunRecord, setting: str) -> str:
    return repr(spelled(setting, run.config.get(setting)) or "none")


def comparison_table(runs: Sequence[RunRecord]) -> RenderableType:
    """Runs ranked by log evidence, then the terms of each; not ranked, after the reasons, if they cannot be compared.

    Two tables, of which each fits on a terminal of 80 characters.
    """
    found = comparison(runs)
    scores = [name for name in ("accuracy", "rmse") if any(row[name] is not None for row in found)] or ["accuracy"]
    ranked = [
        [str(number), row["title"], *_nats(row, "log_evidence", "log_bayes_factor"), *_scores(row, scores)]
        for number, row in enumerate(found, 1)
    ]
    for cells, row in zip(ranked, found, strict=True):
        cells[2] += "" if row["standard_error"] is None else f" ± {row['standard_error']:.1f}"
    terms = [
        [str(number), *_nats(row, "log_likelihood", "log_prior", "log_volume"), _count(row["num_data"])]
        for number, row in enumerate(found, 1)
    ]
    first = ">rank" if all(row["rank"] for row in found) else ">number"
    warnings = [Text(sentence, style="yellow") for sentence in comparability(runs) + undecided(runs)]
    heads = [first, "run", ">log evidence", ">log Bayes factor", *(f">{SCORES[name]}" for name in scores)]
    return Group(
        *warnings,
        table(heads, ranked, broken="run"),
        table([first, ">log-likelihood", ">log-prior", ">log-volume", ">data"], terms),
    )


def _scores(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [_percent(row[name]) if name == "accuracy" else _number(row[name]) for name in names]


def _nats(row: Mapping[str, Any], *names: str) -> list[str]:
    return [ABSENT if row[name] is None else f"{row[name]:,.1f}" for name in names]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], broken: str | None = None) -> Table:
    """A table; columns whose head starts with ">" are right-aligned. The column `broken` is made narrower first."""
    made = Table()
    for number, head in enumerate(heads):
        longest = max((len(row[number]) for row in rows), default=0)
        word = max(map(len, head.removeprefix(">").split()))
        least = None if broken in (None, head) else max(min(longest, WHOLE), word)
        side: Literal["left", "right"] = "right" if head.startswith(">") else "left"
        made.add_column(head.removeprefix(">"), justify=side, overflow="fold", min_width=least)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def _metrics(test: Metrics | None, numbers: bool) -> list[str]:
    """The scores of classes, or of numbers, and what they were measured on."""
    if test is None:
        return [ABSENT] * (3 if numbers else 4)
    ece = ABSENT if test.ece is None else f"{test.ece:.4f}"
    scores = [_number(test.rmse), f"{test.nll:.4f}"] if numbers else [_percent(test.accuracy), f"{test.nll:.4f}", ece]
    return [*scores, str(test.num_samples)]


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.2f}"


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.5g}"


def _count(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"
