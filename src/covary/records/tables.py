"""Tables of a run as rows of words, and as plain text."""

from collections.abc import Mapping, Sequence

from .._text import plural
from . import Metrics, RunRecord
from .words import ROLES, layer_names, path_precision, plain_name, strength

ABSENT = "–"
LISTED = 8  # targets whose numbers are shown
Rows = tuple[list[str], list[list[str]]]  # heads, where ">" means that the column is aligned to the right, and cells


def run_text(run: RunRecord) -> str:
    """What was learned as plain text, for `print`: problem, tables of transforms and layers, evidence, metrics."""
    problem = [] if run.problem is None else [run.problem]
    tables = [(run.symmetries, symmetry_rows), (run.verdicts, verdict_rows), (run.layers, layer_rows)]
    evidence = "" if run.evidence is None else str(run.evidence)
    numbers = [line for line in (no_errors_text(run), evidence, noise_text(run), _test(run)) if line]
    if not any((run.symmetries, run.layers, numbers)):
        numbers = [f"{plural(len(run.history), 'epoch')}, without an evidence, transforms or test data"]
    numbers += [line for line in (_roles(run),) if line]
    parts = [*problem, *(text_table(*rows(run)) for there, rows in tables if there), "\n".join(numbers)]
    return "\n\n".join(parts).strip()


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text, its columns aligned."""
    cells = [[head.removeprefix(">") for head in heads], *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    sides = [
        (str.rjust if head.startswith(">") else str.ljust, width) for head, width in zip(heads, widths, strict=True)
    ]
    aligned = [[justify(cell, width) for cell, (justify, width) in zip(row, sides, strict=True)] for row in cells]
    rule = ["─" * width for width in widths]
    return "\n".join("  ".join(row).rstrip() for row in [aligned[0], rule, *aligned[1:]])


def symmetry_rows(run: RunRecord) -> Rows:
    """What was learned: name, width, its standard error, unit, meaning, amount, state and, if known, the true width."""
    shape = run.samples.shape if run.samples is not None else None
    known = any(symmetry.error is not None for symmetry in run.symmetries)
    rows = []
    for s in run.symmetries:
        error = [_error(s.error)] if known else []
        words = [s.unit, s.meaning, strength(s, shape), s.state]
        rows.append([plain_name(s.name), f"{s.width:.3g}", *error, *words, *_true(run, s.name)])
    heads = ["transform", ">width", *([">± error"] if known else []), "unit", "meaning", "amount", "state"]
    return [*heads, *([">true"] if run.true_widths else [])], rows


def verdict_rows(run: RunRecord) -> Rows:
    """Whether the data have each symmetry, with the log Bayes factors of the learned width."""
    rows = []
    for v in run.verdicts:
        pairs = [
            (v.log_bayes_factor, v.error),
            (v.log_bayes_factor_none, v.error_none),
            (v.log_bayes_factor_full, v.error_full),
        ]
        rows.append([plain_name(v.name), v.words, *(f"{value:+.1f} ± {error:.1f}" for value, error in pairs)])
    return ["symmetry", "verdict", ">nats", ">learned against none", ">learned against full"], rows


def role_rows(run: RunRecord) -> Rows:
    """The roles of parameters: how many tensors and entries have each, and how these are trained."""
    rows = [
        [role, str(len(run.roles[role])), f"{sum(run.roles[role].values()):,}", said]
        for role, said in ROLES.items()
        if run.roles.get(role)
    ]
    return ["role", ">tensors", ">entries", "training"], rows


def layer_rows(run: RunRecord) -> Rows:
    """What each relaxed layer became: a row per path, the learned one marked, with the layer's errors at its first."""
    turned = any(layer.turn_error is not None for layer in run.layers)
    rows = []
    for name, layer in zip(layer_names(run), run.layers, strict=True):
        errors = [_error(layer.shift_error), *([_error(layer.turn_error)] if turned else [])]
        for path in layer.paths:
            mark = " ◀" if path.name == layer.learned else " (inactive)" if path.inactive else ""
            numbers = [f"{100 * path.relative:.2f}", f"{path.effective:,.1f}", f"{path.num_params:,}"]
            amounts = [path_precision(path.precisions), f"{path.weight_norm:.2g}"]
            rows.append([name, path.name + mark, *numbers, *amounts, *errors])
            name, errors = "", [""] * len(errors)  # once for a layer
    heads = ["layer", "path", ">share %", ">γ", ">P", ">precision", ">norm", ">shift error"]
    return [*heads, ">turn error"] if turned else heads, rows


def no_errors_text(run: RunRecord) -> str:
    """Which widths have no error bar and why, in a line; empty where all have one, or the record does not say."""
    by_reason: dict[str, list[str]] = {}
    for symmetry in run.symmetries:
        if symmetry.no_error is not None:
            by_reason.setdefault(symmetry.no_error, []).append(plain_name(symmetry.name))
    if len(by_reason) == 1 and all(symmetry.no_error is not None for symmetry in run.symmetries):
        return f"no error bars: {next(iter(by_reason))}"
    return "\n".join(f"no error bar of {', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _error(error: float | None) -> str:
    return ABSENT if error is None else f"{error:.2g}"


def _true(run: RunRecord, name: str) -> list[str]:
    if not run.true_widths:
        return []
    return [f"{run.true_widths[name]:.3g}" if name in run.true_widths else ABSENT]


def noise_text(run: RunRecord) -> str:
    """The noise of the targets beside their standard deviation, and the temperature where it is not 1.

    Where the network predicts the noise, each target has a line; counts have their standard deviation alone.
    """
    temperature = run.likelihood.get("temperature", 1.0)
    parts = _predicted(run) or _of_one_size(run)
    return "\n".join([*parts, f"temperature {temperature:.3g}"] if temperature != 1 else parts)


def _predicted(run: RunRecord) -> list[str]:
    """A line for each target whose noise the network predicts."""
    lines = []
    for number, noise in enumerate(run.predicted_noise[:LISTED]):
        of = "the targets" if len(run.predicted_noise) == 1 else f"target {number}"
        beside = f" ({run.target_std[number]:.3g} without the network)" if number < len(run.target_std) else ""
        spread = f"between {noise.low:.3g} and {noise.high:.3g} for 90 % of the data"
        lines.append(f"noise of {of}: standard deviation {noise.size:.3g}, {spread}{beside}")
    left = len(run.predicted_noise) - LISTED
    return [*lines, f"and of {plural(left, 'further target')}"] if left > 0 else lines


def _of_one_size(run: RunRecord) -> list[str]:
    """The noise that does not depend on the input; without one, the standard deviation of the targets."""
    found, targets = listed(noises(run.likelihood)), listed(run.target_std)
    if not found:
        return [f"standard deviation of the targets: {targets}"] if targets else []
    beside = f" ({targets} without the network)" if targets else ""
    return [f"noise of the targets: standard deviation {found}{beside}"]


def listed(values: Sequence[float]) -> str:
    """Numbers of targets, the first few of many."""
    more = f", … ({len(values)} targets)" if len(values) > LISTED else ""
    return ", ".join(f"{value:.3g}" for value in values[:LISTED]) + more


def noises(likelihood: Mapping[str, float]) -> list[float]:
    """The standard deviations of the noise of the targets, among the hyperparameters of a likelihood."""
    return [value for name, value in likelihood.items() if name.startswith("sigma_noise")]


def _roles(run: RunRecord) -> str:
    sizes = {role: sum(run.roles[role].values()) for role in ROLES if run.roles.get(role)}
    counts = [plural(size, role) if role == "hyperparameter" else f"{size:,} {role}" for role, size in sizes.items()]
    return f"parameters: {', '.join(counts)}" if counts else ""


def _test(run: RunRecord) -> str:
    test = run.test
    if test is None:
        return ""
    parts = []
    if test.accuracy is not None:
        several = test.num_targets is not None and test.num_targets != test.num_data
        parts.append(f"accuracy {100 * test.accuracy:.2f} %" + (f" of {test.num_targets:,} labels" if several else ""))
    if test.ece is not None:
        parts.append(f"calibration error {test.ece:.3f}")
    if test.rmse is not None:
        parts.append(f"root mean squared error {error_text(test)}")
    return f"test: {', '.join([*parts, f'negative log-likelihood {test.nll:.4f} per datum'])} ({test.num_data:,} data)"


def error_text(test: Metrics) -> str:
    """The root mean squared error, and that of each target where there are several; empty for classes."""
    each = f" ({listed(test.rmse_by_target)} by target)" if test.rmse_by_target else ""
    return "" if test.rmse is None else f"{test.rmse:.4g}{each}"
