"""The log of a fit: what was written is read once, whole lines only."""

from dataclasses import replace

import pytest

from covary.errors import DataError
from covary.records.progress import Event, LogReader, line_of
from report.runs import full_run

EVENTS = [Event("start", num_epochs=60), Event("phase", phase="training"), Event("epoch", epoch=full_run().history[29])]


def test_events_are_read_once_and_unchanged(tmp_path):
    path = tmp_path / "progress.jsonl"
    reader = LogReader(path)
    assert reader.read() == []
    path.write_text("".join(map(line_of, EVENTS[:2])))
    assert reader.read() == EVENTS[:2]
    assert reader.read() == []
    with path.open("a") as file:
        file.write(line_of(EVENTS[2]))
    assert reader.read() == EVENTS[2:]


def test_half_a_line_waits_for_its_end(tmp_path):
    path, line = tmp_path / "progress.jsonl", line_of(EVENTS[2])
    reader = LogReader(path)
    path.write_text(line_of(EVENTS[0]) + line[:40])
    assert reader.read() == EVENTS[:1]
    with path.open("a") as file:
        file.write(line[40:])
    assert reader.read() == EVENTS[2:]


def test_a_log_that_is_replaced_is_read_from_its_start(tmp_path):
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(map(line_of, EVENTS)))
    reader = LogReader(path)
    reader.read()
    (tmp_path / "new").write_text(line_of(EVENTS[0]) * 9)
    (tmp_path / "new").replace(path)
    assert reader.read() == EVENTS[:1] * 9


@pytest.mark.parametrize(
    "line", ["[]", "3", "{", '{"event": "epoch", "epoch": 3}', '{"event": "a", "b": 1}', "[" * 10**5]
)
def test_a_damaged_line_is_an_error_that_names_the_file(tmp_path, line):
    (tmp_path / "progress.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"progress\.jsonl"):
        LogReader(tmp_path / "progress.jsonl").read()


@pytest.mark.parametrize("number", [-1, 10**400, 10**6 + 1])
def test_numbers_that_no_fit_has_are_errors(tmp_path, number):
    epoch = full_run().history[0]
    events = [
        Event("start", num_epochs=number),
        Event("epoch", epoch=replace(epoch, epoch=number)),
        Event("epoch", epoch=replace(epoch, seconds=1e300 * (1 if number > 0 else -1))),
    ]
    for event in events:
        (tmp_path / "progress.jsonl").write_text(line_of(event))
        with pytest.raises(DataError, match=r"progress\.jsonl.*expected (epochs|seconds)"):
            LogReader(tmp_path / "progress.jsonl").read()
