"""`covary watch`: a run of another process is followed to its end, and a finished one is described."""

import io
import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.outcomes import assert_one_line_and_code_2
from covary._lock import locked
from covary.config import FitConfig
from covary.records import RunRecord, write_run
from covary.training.log import ProgressLog
from report.runs import full_run

EPOCHS = full_run().history
LEARN = Path("a", "checkpoints", "learn")


def begun(folder: Path, num_epochs: int, total: int = 60) -> ProgressLog:
    """The log of a fit after some epochs."""
    folder.mkdir(parents=True, exist_ok=True)
    log = ProgressLog(folder, [])
    log.on_fit_start(FitConfig(epochs=total))
    log.on_phase("training")
    for epoch in EPOCHS[:num_epochs]:
        log.on_epoch(epoch)
    return log


def train(ready: threading.Event, record: RunRecord | None) -> None:
    """A run as a process trains it, to its end if it has a record."""
    with locked(Path("a")):
        log = begun(LEARN, 20)
        ready.set()
        time.sleep(0.3)
        for epoch in EPOCHS[20:]:
            log.on_epoch(epoch)
        log.on_phase("testing")
        time.sleep(0.3)
        if record is not None:
            write_run(record, Path("a", "run.json"))
            shutil.rmtree(Path("a", "checkpoints"))


@pytest.fixture
def watched(run):
    """A function of the record of a run that goes on to the outcome of watching it."""

    def call(record: RunRecord | None, *arguments: str):
        ready = threading.Event()
        thread = threading.Thread(target=train, args=(ready, record))
        thread.start()
        assert ready.wait(20)
        outcome = run("watch", "a", "--interval", "0.05", *arguments)
        thread.join()
        return outcome

    return call


def test_a_run_is_followed_to_its_end(watched):
    outcome = watched(full_run(), "--json")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert outcome.code == 0
    assert lines[0] == {"fit": "learn", "event": "start", "num_epochs": 60}
    assert [line["epoch"]["epoch"] for line in lines if line["event"] == "epoch"] == list(range(1, 61))
    assert {"fit": "learn", "event": "phase", "phase": "testing"} in lines
    end = {"event": "end", "state": "complete", "run": "a", "problem": None}
    assert lines[-1] == end | {"log_evidence": full_run().evidence.log_evidence}


def test_without_a_terminal_there_are_a_few_lines_and_the_summary(watched):
    outcome = watched(full_run())
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[0].startswith("learn: training, epoch 20 of 60, estimated log evidence ")
    tested = [line for line in lines if line.startswith("learn: testing, epoch 60 of 60, ")]
    assert tested
    assert all("evaluated log evidence " in line for line in tested)
    assert lines[-2].startswith("The run is complete: 60 epochs")
    assert lines[-1].startswith("By the verdicts, the labels ignore rotation by up to ±87°")
    assert len(lines) < 16


def test_a_run_that_ends_before_it_is_complete_is_exit_code_1(watched):
    outcome = watched(None)
    assert outcome.code == 1
    assert outcome.err == "error: The run in 'a' stopped in epoch 60 of 60 of 'learn'; it continues with --resume.\n"


def test_a_terminal_sees_one_line_that_changes(watched, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr("covary.cli.output.CONSOLE", console)
    outcome = watched(full_run())
    shown = console.file.getvalue()
    assert "learn: training [" in shown
    assert "learn: testing [" in shown
    assert "epoch 60 of 60" in shown
    assert "epoch" not in outcome.out.splitlines()[-1]


@pytest.mark.parametrize("name", ["a", "a/run.json"])
def test_a_finished_run(run, name):
    write_run(full_run(), Path("a", "run.json"))
    outcome = run("watch", name)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "The run is complete: 60 epochs in 127 s."
    epochs = [json.loads(line) for line in run("watch", name, "--json").out.splitlines()]
    assert [line["event"] for line in epochs] == ["epoch"] * 60 + ["end"]


def test_a_run_with_a_problem_is_exit_code_1(run):
    write_run(replace(full_run(), problem="The network has collapsed."), Path("a", "run.json"))
    outcome = run("watch", "a")
    assert outcome.code == 1
    assert "The network has collapsed." in outcome.out


def test_a_killed_run_says_where_it_is(run):
    begun(LEARN, 20)
    outcome = run("watch", "a")
    assert outcome.code == 1
    assert "stopped in epoch 21 of 60 of 'learn'; it continues with --resume" in outcome.err
    end = json.loads(run("watch", "a", "--json").out.splitlines()[-1])
    assert (end["event"], end["state"]) == ("end", "stopped")


def test_a_fit_in_python_is_followed_by_the_folder_of_its_checkpoints(run):
    begun(Path("b"), 60)
    assert run("watch", "b").out.splitlines()[-1] == "The fit is complete."
    begun(Path("b"), 59)
    assert run("watch", "b").code == 1


@pytest.mark.parametrize(
    ("name", "expected"), [("nowhere", "does not exist"), ("empty", "has no run"), ("file", "is a file")]
)
def test_no_run_is_one_line(run, name, expected):
    Path("empty").mkdir()
    Path("file").write_text("")
    assert_one_line_and_code_2(run("watch", name), f"'{name}' {expected}", "Name the folder of a run")


@pytest.mark.parametrize("interval", ["0", "nan", "inf", "-1"])
def test_an_interval_that_cannot_be_waited_for(run, interval):
    assert_one_line_and_code_2(run("watch", "a", "--interval", interval), "--interval", "between 0.05 and 3600")


def test_a_damaged_log_is_one_line(run):
    begun(LEARN, 2)
    (LEARN / "progress.jsonl").write_text('{"event": 3}\n')
    assert_one_line_and_code_2(run("watch", "a"), "progress.jsonl")
