"""The short form of `make fuzz`: a few cases of each kind, and a control for each thing that a case must not do."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.suites import malformed

SEED, NUM_CASES = 1, 6


@pytest.fixture(autouse=True)
def _float64() -> None:
    """In the place of the fixture of this name: commands run in torch's own type."""


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with malformed._workplace() as folder:
        yield folder


@pytest.mark.parametrize("case", range(NUM_CASES))
@pytest.mark.parametrize("kind", malformed.KINDS)
def test_malformed_input_is_refused_in_one_line(template, kind, case):
    result = malformed.attempt(kind, case, SEED, template)
    assert result.failure is None, result


def fail(arguments):
    raise ValueError("a fault")


def hang(arguments):
    malformed._too_long()


def execute(arguments):
    Path("executed").write_text("")
    return 0


def obey(arguments):
    print("\x1b[31m")
    return 0


@pytest.mark.parametrize(
    ("behavior", "failure"),
    [
        (fail, "ValueError: a fault"),
        (hang, "TimeoutError: more than 60 s"),
        (execute, "executed"),
        (obey, "control characters"),
        (lambda arguments: 1, "exit code 1"),
        (lambda arguments: 2, "expected one line that begins with error:"),
        (lambda arguments: 0, None),
    ],
)
def test_what_must_not_happen_is_seen(template, monkeypatch, behavior, failure):
    monkeypatch.setattr(malformed, "_exit_code", behavior)
    result = malformed.attempt("flags", 0, SEED, template)
    assert (result.failure is None) == (failure is None)
    assert failure is None or failure in result.failure


STOPPED = "The run in 'run' stopped in epoch 2 of 3; it continues with --resume."
FINISHED, BAD = {"complete": True, "problem": None}, {"complete": True, "problem": "Collapsed."}


@pytest.mark.parametrize(
    ("command", "record", "out", "err", "allowed"),
    [
        ("discover", BAD, "", "warning: a\nerror: Collapsed.\n", True),
        ("discover", BAD, "", "error: Collapsed.\nerror: And more.\n", False),
        ("discover", BAD, "", "", False),
        ("discover", FINISHED, "", "", False),
        ("discover", FINISHED, "", "error: Collapsed.\n", False),
        ("discover", None, "", "error: Collapsed.\n", False),
        ("predict", BAD, "", "error: Collapsed.\n", False),
        ("watch", None, "", f"error: {STOPPED}\n", True),
        ("watch", None, "", "error: Something else.\n", False),
        ("watch", None, "", "", False),
        ("watch", BAD, "The run is complete: 1 epochs in 0 s.\nCollapsed.\n", "", True),
        ("watch", FINISHED, "The run is complete: 1 epochs in 0 s.\n", "", False),
        ("watch", FINISHED, "", f"error: {STOPPED}\n", False),
    ],
)
def test_exit_code_1_is_for_runs_with_a_problem_alone(tmp_path, monkeypatch, command, record, out, err, allowed):
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    if record is not None:
        Path("run/run.json").write_text(json.dumps(record))
    arguments = [command, "run"] if command == "watch" else [command, "--out", "run"]
    assert malformed._says_problem(arguments, out, err) is allowed


def test_exit_code_1_in_json_is_for_runs_with_a_problem_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    ends = [{"event": "end", "message": STOPPED}, {"event": "end", "problem": "Collapsed."}, {"event": "end"}]
    outs = [json.dumps(end) for end in ends]
    assert [malformed._says_problem(["watch", "run", "--json"], out, "") for out in outs] == [True, False, False]
    Path("run/run.json").write_text(json.dumps(BAD))
    assert [malformed._says_problem(["watch", "run", "--json"], out, "") for out in outs] == [False, True, False]


def test_a_case_is_a_function_of_its_name(template, monkeypatch):
    monkeypatch.setattr(malformed, "_exit_code", lambda arguments: 0)
    first, again, other = (malformed.attempt("flags", case, SEED, template).arguments for case in (3, 3, 4))
    assert first == again
    assert first != other
