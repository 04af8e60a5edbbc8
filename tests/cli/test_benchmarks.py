"""`covary bench`: rows as a table, as JSON, as a picture."""

import json

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary import cli

ROWS = [
    {"workload": "W1", "columns": 1, "seconds": 1.23456, "ratio": 2.5, "peak_mb": 1700.0},
    {"workload": "W1", "columns": "exact", "seconds": 4.0, "ratio": 8.0, "peak_mb": None},
]
SCALED = [
    {"axis": "N", "size": size, "pass": "training", "seconds": size / 100, "peak_mb": None} for size in (100, 200)
]


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """The repeats that benchmarks called 'fake' and 'scaling' were asked for."""
    asked: list[int] = []

    def measured(rows):
        def measure(repeats, progress):
            asked.append(repeats)
            progress("measuring", 0.5)
            return rows

        return measure

    monkeypatch.setitem(cli.benchmarks.WORKLOADS, "fake", measured(ROWS))
    monkeypatch.setitem(cli.benchmarks.WORKLOADS, "scaling", measured(SCALED))
    return asked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["NAME"]),
        (("nothing",), ["nothing", "expected one of", "fake"]),
        (("fake", "--repeats", "0"), ["--repeats", "greater than or equal to 1"]),
        (("fake", "--repeats", "many"), ["--repeats", "valid integer"]),
        (("fake", "--plot", "time.svg"), ["--plot draws the benchmark 'scaling'", "'fake' came"]),
        (("scaling", "--plot", "time.doc"), ["time.doc", ".svg"]),
        (("scaling", "--plot", "/dev/null/time.svg"), ["/dev/null"]),
    ],
)
def test_bad_input_is_told_before_anything_is_measured(run, calls, arguments, words):
    assert_one_line_and_code_2(run("bench", *arguments), *words)
    assert calls == []


def test_rows_as_json(run, calls):
    code, out, err = run("bench", "fake", "--json", "--repeats", "3")
    assert (code, err) == (0, "")
    assert json.loads(out) == ROWS
    assert calls == [3]


def test_rows_as_a_table(run, calls):
    code, out, _ = run("bench", "fake")
    assert code == 0
    assert all(text in out for text in ("workload", "peak_mb", "W1", "exact", "1.235", "1700"))
    assert calls == [5]


def test_a_picture_of_scaling(run, calls, tmp_path):
    assert run("bench", "scaling", "--plot", "new/time.svg").code == 0
    assert "data N" in (tmp_path / "new" / "time.svg").read_text()
