"""Seconds by what they were spent on."""

import pytest

import covary
from covary.training.timing import timed, timed_items
from training_models import QUICK, averaged, points


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when it is told to."""
    now = [100.0]
    monkeypatch.setattr("covary.training.timing.time.monotonic", lambda: now[0])
    return now


def test_blocks_add_up_and_an_error_counts_too(clock):
    timings = {}
    for seconds in (2.0, 3.0):
        with timed(timings, "hyper"):
            clock[0] += seconds

    def fail():
        clock[0] += 0.5
        raise RuntimeError

    with pytest.raises(RuntimeError), timed(timings, "weights"):
        fail()
    assert timings == {"hyper": 5.0, "weights": 0.5}


def test_the_use_of_an_item_does_not_count(clock):
    def made():
        for item in range(3):
            clock[0] += 1.0
            yield item

    timings = {}
    for _ in timed_items(timings, "weights", made()):
        clock[0] += 10.0
    assert timings == {"weights": 3.0}


def test_a_fit_records_the_seconds_of_its_parts():
    record = covary.fit(averaged(), points(), QUICK, epochs=2, test=points(), callbacks=()).record
    assert set(record.timings) == {"weights", "hyper", "evaluation", "test"}
    assert all(seconds > 0 for seconds in record.timings.values())
    assert sum(record.timings.values()) <= record.seconds
