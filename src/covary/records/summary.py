"""What a run learned in plain sentences: by its verdicts, by its settled widths, by its layers and on the test data."""

import math
from collections.abc import Sequence
from dataclasses import replace

from . import Layer, Metrics, RunRecord, Symmetry, Verdict
from .tables import error_text, noise_text
from .words import SIDES, TYPES, interval, meaning, pixels, plain_name, short, strength

FLIPS = ("flip_x", "flip_y")
CLEAR = 2.0  # standard errors of a difference of two accuracies, from which it is more than chance


def summary(run: RunRecord) -> str:
    """What was learned, in plain sentences about the transforms, about the layers, or about each; a problem first.

    A transform with a verdict is described by that, and a width without an error bar claims no more than one that may
    be 0. Where there are neither transforms nor layers, the noise and the error on the test data are first. Where there
    are baselines, a sentence says last who predicts the test data best.

    Example:
        >>> from covary.records import RunRecord
        >>> from covary.report import summary
        >>> summary(RunRecord("a plain network"))
        'This run has no transforms whose width could be learned.'
    """
    parts = [] if run.problem is None else [run.problem]
    if not run.symmetries and not run.layers:
        parts += [*_regression(run), "This run has no transforms whose width could be learned."]
    parts += [_decided(run), _ignored(run), _became(run) if run.layers else "", best_tested(run)]
    return " ".join(part for part in parts if part)


def verdict_sentences(run: RunRecord) -> list[str]:
    """For each verdict the answer, what was compared, and by how many nats."""
    shape, by_name = _shape(run), {symmetry.name: symmetry for symmetry in run.symmetries}
    return [_compared(verdict, by_name[verdict.name], shape) for verdict in run.verdicts if verdict.name in by_name]


def _compared(verdict: Verdict, symmetry: Symmetry, shape: Sequence[int] | None) -> str:
    """What the answer of a verdict is from: the learned width, or the complete symmetry, against none."""
    value, error = factor = (verdict.log_bayes_factor, verdict.error)
    digits = 0 if abs(value) >= 10 else 1 if error >= 0.1 else 2
    amount = f"{abs(value):,.{digits}f} ± {error:,.{digits}f} nats {'more' if value > 0 else 'less'} probable than"
    if symmetry.name in FLIPS:
        data = "inputs" if shape is None else "images"
        compared = f"Flipping half of all {data} makes the labels {amount} never flipping."
    else:
        by_learned = symmetry.unit != "probability" and factor == (verdict.log_bayes_factor_none, verdict.error_none)
        what = _phrase(symmetry, shape) if by_learned else "the complete symmetry"
        compared = f"With {what}, the labels are {amount} without it."
    return f"{_capitalized(short(plain_name(symmetry.name), 40))}: {verdict.words}. {compared}"


def _regression(run: RunRecord) -> list[str]:
    """The noise, and the error on the test data, of a run that has them."""
    noise = [f"{_capitalized(line)}." for line in noise_text(run).splitlines()]
    if run.test is None or run.test.rmse is None:
        return noise
    return [*noise, f"Root mean squared error on the test data: {error_text(run.test)}."]


def _decided(run: RunRecord) -> str:
    """What the verdicts say, in a sentence; empty without one."""
    shape, answers = _shape(run), {verdict.name: verdict.answer for verdict in run.verdicts}
    found: dict[str, list[str]] = {}
    for symmetry in run.symmetries:
        answer, name = answers.get(symmetry.name, ""), short(plain_name(symmetry.name), 40)
        known = answer == "yes" and strength(symmetry, shape) != "negligible"
        found.setdefault(answer, []).append(_phrase(symmetry, shape) if known else name)
    verbs = {"yes": "ignore {}", "no": "do not ignore {}", "undecided": "may ignore {} (undecided)"}
    clauses = [verb.format(_joined(found[answer])) for answer, verb in verbs.items() if answer in found]
    return f"By the verdicts, the labels {', and '.join(clauses)}." if clauses else ""


def _ignored(run: RunRecord) -> str:
    """The transforms without a verdict that the labels ignore, as far as their widths have settled, and the others."""
    shape, decided = _shape(run), {verdict.name for verdict in run.verdicts}
    by_state: dict[str, list[Symmetry]] = {}
    for symmetry in sorted(run.symmetries, key=lambda symmetry: -pixels(symmetry, shape)):
        if symmetry.name not in decided:
            by_state.setdefault(symmetry.state, []).append(symmetry)
    if list(by_state) == ["not learned yet"] and not decided:
        return "No width was learned: they are as they started."
    settled, moving = by_state.pop("settled", []), by_state.pop("still moving", [])
    said = [_settled(settled, shape, alone=not moving, first=not decided)] if settled else []
    if moving:
        now = _joined([f"{short(plain_name(s.name), 40)} (now {_meant(s, shape)})" for s in moving])
        said.append(f"Still moving: {now}. Train for more epochs to learn {'it' if len(moving) == 1 else 'them'}.")
    for state, others in by_state.items():
        said.append(f"{state.capitalize()}: {_joined([_phrase(symmetry, shape) for symmetry in others])}.")
    return " ".join(said)


def _settled(symmetries: Sequence[Symmetry], shape: Sequence[int] | None, *, alone: bool, first: bool) -> str:
    """What the settled widths say, in the order they are given.

    A width whose interval begins at 0 is a bound: the labels need not ignore anything of it, nor of a width without an
    interval. A negligible width is one only if no clear one is in its interval.

    Arguments:
        alone: Whether no width without a verdict is still moving.
        first: Whether no transform has a verdict, which the sentence before says.
    """
    found: dict[str, list[str]] = {"clear": [], "slight": [], "uncertain": [], "negligible": []}
    for symmetry in symmetries:
        how, ends = strength(symmetry, shape), symmetry.interval
        if how == "negligible":  # unless it may be clear as well
            unknown = ends is not None and strength(replace(symmetry, width=ends[1]), shape) == "clear"
        else:
            unknown = ends is None or ends[0] == 0
        if unknown:
            found["uncertain"].append(_uncertain(symmetry, shape))
        else:
            found[how].append(_phrase(symmetry, shape))
    num_left, kind = len(found["negligible"]), "" if alone else "settled "
    if num_left == len(symmetries):
        none = "The labels ignore none of the transforms: every learned width is negligible."
        return none if alone and first else f"Every {'' if first else 'other '}{kind}width is negligible."
    verbs = {"clear": "ignore", "slight": "slightly ignore", "uncertain": "may ignore"}
    parts = [f"{verb} {_joined(found[how])}" for how, verb in verbs.items() if found[how]]
    rest = {0: "", 1: f"; the one other {kind}width is negligible"}
    return f"The labels {', and '.join(parts)}{rest.get(num_left, f'; every other {kind}width is negligible')}."


def _uncertain(symmetry: Symmetry, shape: Sequence[int] | None) -> str:
    """A width that may be 0: its bound, or the width itself where it has no error bar."""
    if symmetry.interval is not None:
        return f"{short(plain_name(symmetry.name), 40)} ({interval(symmetry, shape)})"
    said = _phrase(symmetry, shape)
    return f"{said[:-1]}; no error bar)" if said.endswith(")") else f"{said} (no error bar)"


def _became(run: RunRecord) -> str:
    """The learned types of the layers, one after another."""
    if all(len(layer.paths) == 1 for layer in run.layers):
        return "Each layer has a single path, so there was nothing to choose."
    spans: list[tuple[str, list[int]]] = []
    for number, layer in enumerate(run.layers, start=1):
        if spans and spans[-1][0] == _type(layer):
            spans[-1][1].append(number)
        else:
            spans.append((_type(layer), [number]))
    if len(spans) == 1:
        return f"Every layer became {spans[0][0]}."
    said = [f"{_numbered(numbers)} became {name}" for name, numbers in spans]
    return f"{_capitalized(', '.join(said))}."


def _type(layer: Layer) -> str:
    """What a layer has become; mostly, where another path is still on."""
    name = TYPES.get(layer.learned, short(layer.learned, 40))
    alone = all(path.inactive for path in layer.paths if path.name != layer.learned)
    return name if alone else f"mostly {name}"


def _numbered(numbers: Sequence[int]) -> str:
    return f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]} to {numbers[-1]}"


def _phrase(symmetry: Symmetry, shape: Sequence[int] | None) -> str:
    name, said = short(plain_name(symmetry.name), 40), _meant(symmetry, shape)
    if symmetry.unit in ("log-scale", "log-factor"):
        return f"{name} ({said})"
    if symmetry.unit == "probability":
        return f"{name} (in {said})"
    by = "" if symmetry.unit in SIDES or symmetry.unit == "standard deviation" else "up to "
    return f"{name} by {by}{said}"


def _meant(symmetry: Symmetry, shape: Sequence[int] | None) -> str:
    return meaning(symmetry.name, symmetry.width, symmetry.unit, shape)


def _joined(phrases: Sequence[str]) -> str:
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def _shape(run: RunRecord) -> Sequence[int] | None:
    return None if run.samples is None else run.samples.shape


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def best_tested(run: RunRecord) -> str:
    """A sentence about the network with the highest test accuracy; empty without baselines that were tested.

    Two accuracies differ clearly if they are at least two standard errors of their difference apart, as if the networks
    were tested on different data of this number.

    Example:
        >>> from covary.records import Baseline, Metrics, RunRecord
        >>> test, other = (Metrics(right, 0.1, 0.0, 1000, 8) for right in (0.95, 0.99))
        >>> best_tested(RunRecord("run", test=test, baselines=[Baseline("plain", [], None, other, 3.0)]))
        'On the test data plain is better than what was learned: 99.0 % right, against 95.0 %.'
    """
    if run.test is None or run.test.accuracy is None:
        return ""
    others = {other.name: other.test for other in run.baselines if other.test and other.test.accuracy is not None}
    if not others:
        return ""
    name = max(others, key=lambda other: _accuracy(others[other]))
    ours, theirs = _accuracy(run.test), _accuracy(others[name])
    if abs(ours - theirs) < CLEAR * math.hypot(_error(run.test), _error(others[name])):
        return (
            f"On the test data no clear winner: {100 * ours:.1f} % right with what was learned, {100 * theirs:.1f} % "
            f"with {name}, the best baseline; {run.test.num_data:,} test data are too few to separate them."
        )
    if ours > theirs:
        return (
            f"On the test data what was learned is best: {100 * ours:.1f} % right, against {100 * theirs:.1f} % with "
            f"{name}, the best baseline."
        )
    return (
        f"On the test data {name} is better than what was learned: {100 * theirs:.1f} % right, against "
        f"{100 * ours:.1f} %."
    )


def _accuracy(test: Metrics) -> float:
    return 0.0 if test.accuracy is None else test.accuracy


def _error(test: Metrics) -> float:
    """The standard error of an accuracy; of one that is 0 or 1, as if one answer more were different."""
    share = min(max(_accuracy(test), 1 / (test.num_data + 2)), 1 - 1 / (test.num_data + 2))
    return math.sqrt(share * (1 - share) / max(test.num_data, 1))
