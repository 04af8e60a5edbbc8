"""The short form of `make fuzz`: a few cases of each kind, and a control for each thing that a case must not do."""

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


def test_a_case_is_a_function_of_its_name(template, monkeypatch):
    monkeypatch.setattr(malformed, "_exit_code", lambda arguments: 0)
    first, again, other = (malformed.attempt("flags", case, SEED, template).arguments for case in (3, 3, 4))
    assert first == again
    assert first != other
