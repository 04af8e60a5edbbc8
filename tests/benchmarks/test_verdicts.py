"""Questions whose answers are known: data with a symmetry have it, data without do not."""

import pytest
import torch

from covary.benchmarks import verdicts
from covary.records import Verdict

BY_TITLE = {question.title: question for question in verdicts.QUESTIONS}


@pytest.mark.parametrize("title", BY_TITLE)
def test_questions_have_two_labels_and_name_every_symmetry(title):
    question = BY_TITLE[title]
    x, y = question.make(0)
    assert len(x) == len(y) <= verdicts.NUM_DATA
    assert set(y.tolist()) == {0, 1}
    assert set(question.truth) == set(question.augment().names)
    assert torch.equal(x, question.make(0)[0])
    assert not torch.equal(x[:50], question.make(1)[0][:50])


def test_ten_symmetries_are_asked_for():
    assert sum(len(question.truth) for question in verdicts.QUESTIONS) == 10


def test_answers_are_counted(monkeypatch):
    said = iter(["yes", "no", "undecided", "yes"])

    def answered(question, seed):
        return [Verdict("rotation", next(said), 5.0, 1.0, 0.3, 5.0, 1.0, 1.0, 1.0)]

    monkeypatch.setattr(verdicts, "QUESTIONS", (BY_TITLE["points, label by half-plane"],))
    monkeypatch.setattr(verdicts, "answered", answered)
    (row,) = verdicts.measure_verdicts(4, lambda message, done: None)
    assert (row["right"], row["undecided"], row["wrong"]) == (1, 1, 2)
    assert row["verdicts"].startswith("yes, +5.0 ± 1.0 nats; no")
