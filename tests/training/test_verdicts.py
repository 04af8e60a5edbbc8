"""Verdicts: which factor decides, what its error has in it, and continuations that leave the run as it is."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import covary
from covary.augment import Mirror3d
from covary.errors import StructureError
from covary.records import read_run, write_run
from covary.training import verdicts
from covary.training.verdicts import Ended, Factor, answer, difference


@pytest.mark.parametrize(
    ("learned", "full", "finite", "negligible", "expected"),
    [
        (Factor(50, 5), Factor(-90, 5), False, False, ("yes", 50)),  # up to the learned width
        (Factor(50, 30), Factor(-90, 5), False, False, ("undecided", 50)),
        (Factor(2.9, 0.1), Factor(1.0, 0.1), False, False, ("undecided", 2.9)),
        (Factor(0, 1), Factor(30, 5), False, False, ("yes", 30)),  # it was not learned far enough
        (Factor(-20, 2), Factor(-90, 5), False, False, ("no", -90)),
        (Factor(0, 1), Factor(-90, 5), False, True, ("no", -90)),
        (Factor(50, 5), Factor(-90, 5), False, True, ("no", -90)),  # a tenth of a pixel is no symmetry
        (Factor(50, 5), Factor(-90, 5), True, False, ("no", -90)),  # mirrored a little is not mirrored
        (Factor(-50, 5), Factor(90, 50), True, False, ("undecided", 90)),
    ],
)
def test_the_answer_follows_from_the_factor_that_decides(learned, full, finite, negligible, expected):
    said, factor, reason = answer(learned, full, finite=finite, negligible=negligible)
    assert (said, factor.value, reason) == (*expected, None)


def test_a_network_that_knows_nothing_decides_nothing():
    for finite in (True, False):
        said, factor, reason = answer(Factor(50, 1), Factor(60, 1), finite=finite, negligible=False, informed=False)
        assert (said, factor.value, reason) == ("undecided", 60 if finite else 50, "no better than a constant")


def test_a_factor_below_what_the_losing_side_still_gained_decides_nothing():
    # measured: evidences at the end and half-way of continuations of 4 epochs, after 6 epochs of 600 digits with the
    # convolutional network of `covary discover --augment flips`, with the learned probabilities and without flip_x
    learned = [Ended(-1018.9, -1084.6), Ended(-998.6, -1118.5)]
    none = [Ended(-1051.2, -1134.5), Ended(-1021.8, -1118.9)]
    found = difference(learned, none, pooled=0.0)
    assert found.value == pytest.approx(27.75)
    assert abs(found.value) > max(3, 2 * found.error), "size and error alone would decide"
    assert found.gain == pytest.approx((83.3 + 97.1) / 2)
    assert found.sign == 0
    assert answer(found, found, finite=True, negligible=False) == ("undecided", found, "undertrained")
    # the gain of the side that loses counts, whichever it is
    assert difference(none, learned, pooled=0.0).gain == found.gain
    ended = [Ended(end, end) for end, _ in none]
    assert difference(learned, ended, pooled=0.0).gain == 0.0


@pytest.mark.parametrize(
    ("learned", "full", "expected"),
    [
        (Factor(50, 5, 60), Factor(-90, 5, 10), ("undecided", "undertrained")),
        (Factor(50, 5, 40), Factor(-90, 5, 100), ("yes", None)),
        (Factor(-20, 2, 30), Factor(-90, 5, 10), ("undecided", "undertrained")),
        (Factor(-20, 2, 10), Factor(-90, 5, 100), ("undecided", "undertrained")),
        (Factor(0, 1, 30), Factor(-90, 5, 100), ("undecided", None)),  # with any training
        (Factor(0, 1, 30), Factor(90, 5, 100), ("undecided", "undertrained")),
    ],
)
def test_an_undecided_answer_says_whether_training_is_the_reason(learned, full, expected):
    said, _, reason = answer(learned, full, finite=False, negligible=False)
    assert (said, reason) == expected


def test_the_error_has_the_spread_of_repeats_and_what_still_changes():
    first = [Ended(-10.0, -12.0), Ended(-14.0, -16.0)]
    second = [Ended(-30.0, -42.0), Ended(-30.0, -42.0)]
    found = difference(first, second, pooled=0.0)
    assert found.value == pytest.approx(18.0)
    assert found.error == pytest.approx(math.sqrt(8 / 2 + 10.0**2))
    steady = [Ended(end, end) for end, _ in second]
    assert difference([Ended(end, end) for end, _ in first], steady, pooled=0.0).error == pytest.approx(2.0)
    assert difference(steady, steady, pooled=18.0).error == pytest.approx(3.0), "two repeats may agree by chance"


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Points in space, whose label is their side along x: two clouds that are far apart."""
    x = torch.randn(80, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    y = torch.arange(80) % 2
    x[:, 0, 0] += 4 * y - 2
    return x, y


@pytest.fixture(scope="module")
def run(data) -> covary.Run:
    """A linear network with a fixed prior: nothing but its weights is learned."""
    torch.manual_seed(0)
    mirror = Mirror3d(("mirror_x",), 0.2).float()
    network = covary.Averaged(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)).float(), mirror, 2)
    mirror.requires_grad_(False)
    model = covary.Model(network, covary.Categorical(), covary.Prior(network).requires_grad_(False))
    config = covary.FitConfig().replace(weights={"lr": 0.05, "batch_size": 10})
    return covary.fit(model, data, config, epochs=3, callbacks=())


def test_a_side_is_not_symmetric_and_the_run_is_not_changed(run, data, tmp_path):
    before = {name: parameter.detach().clone() for name, parameter in run.model.parameters().items()}
    steps = []
    (found,) = covary.verdict(run, data, epochs=4, progress=lambda state, done: steps.append(state))
    assert (found.name, found.answer) == ("mirror_x", "no")
    assert found.log_bayes_factor < -10
    assert found.log_bayes_factor == pytest.approx(found.log_bayes_factor_none - found.log_bayes_factor_full)
    assert steps == ["learned", "none mirror_x", "full mirror_x"] * 2
    for name, parameter in run.model.parameters().items():
        assert torch.equal(before[name], parameter)
    judged = replace(run.record, verdicts=[found])
    write_run(judged, tmp_path / "run.json")
    assert read_run(tmp_path).verdicts == [found]
    assert "learned against none" in str(covary.Run(run.model, judged))


def test_an_undertrained_run_is_said_to_be_so_in_quote_and_record(run, data, tmp_path, monkeypatch):
    # invented: evidences of the size of those above, of which the complete symmetry is 25 nats ahead of none
    ends = {
        "learned": [Ended(-1015, -1095), Ended(-1005, -1085)],
        "none mirror_x": [Ended(-1045, -1125), Ended(-1025, -1107)],
        "full mirror_x": [Ended(-1015, -1097), Ended(-1005, -1085)],
    }
    left = {state: iter(found) for state, found in ends.items()}
    monkeypatch.setattr(verdicts, "_continued", lambda run, data, config, state: next(left[state]))
    monkeypatch.setattr(verdicts, "constant_log_evidence", lambda run, data: -1381.6)  # 600 data of ten classes
    (found,) = covary.verdict(run, data)
    assert found.quote == "undecided (undertrained), +25 ± 5 nats"
    judged = replace(run.record, verdicts=[found])
    write_run(judged, tmp_path / "run.json")
    assert read_run(tmp_path).verdicts == [found]
    assert "undecided (undertrained)" in str(covary.Run(run.model, judged))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": ["shear"]}, "among mirror_x, got 'shear'"),
        ({"names": []}, "one symmetry or more"),
        ({"epochs": 1}, "at least 2"),
        ({"num_repeats": 1}, "at least 2"),
        ({"num_repeats": 10**30}, "at most 1,000"),
    ],
)
def test_bad_input_is_one_line(run, data, arguments, words):
    with pytest.raises(StructureError, match=words):
        covary.verdict(run, data, **arguments)


def test_a_run_without_an_augmentation_has_nothing_to_decide(data):
    plain = covary.fit(covary.networks.mlp(3, 4, 2).float(), data, epochs=2, callbacks=())
    with pytest.raises(StructureError, match="without"):
        covary.verdict(plain, data)
