"""How a command ended."""

from typing import NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def assert_one_line_and_code_2(outcome: Outcome, *words: str) -> None:
    """What a user can mend is said in one line, and nothing is printed besides."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err
