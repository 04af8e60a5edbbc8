import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from covary import cli
from covary._errors import NotPositiveDefiniteError

ROWS = [
    {"workload": "W1", "columns": 1, "seconds": 1.23456, "ratio": 2.5, "peak_mb": 1700.0},
    {"workload": "W1", "columns": "exact", "seconds": 4.0, "ratio": 8.0, "peak_mb": None},
]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """The command line as a function: arguments -> exit code, standard output, standard error."""
    monkeypatch.setenv("COVARY_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        return caught.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """The repeats that a benchmark called 'fake' was asked for."""
    asked: list[int] = []

    def fake(repeats, progress):
        asked.append(repeats)
        progress("measuring", 0.5)
        return ROWS

    monkeypatch.setitem(cli.WORKLOADS, "fake", fake)
    return asked


def assert_one_line_and_code_2(result, *words):
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_no_command_prints_help_and_asks_for_one(run):
    code, out, err = run()
    assert code == 2
    assert "Usage" in out
    assert err == "error: give a command; `covary --help` lists them.\n"


def test_version(run):
    assert run("--version") == (0, f"covary {version('covary')}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("data", "--help"), ("bench", "--help")])
def test_help_has_examples(run, arguments):
    code, out, _ = run(*arguments)
    assert code == 0
    assert "Examples" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("discovre",), ["discovre"]),
        (("data", "--jsno"), ["--jsno"]),
        (("bench",), ["NAME"]),
        (("bench", "nothing"), ["nothing", "expected one of", "fake"]),
        (("bench", "fake", "--repeats", "0"), ["--repeats", "greater than or equal to 1"]),
        (("bench", "fake", "--repeats", "many"), ["--repeats", "valid integer"]),
        (("data", "--data-dir", "no/such/folder"), ["no/such/folder is no folder"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, calls, arguments, words):
    assert_one_line_and_code_2(run(*arguments), *words)
    assert calls == []


def test_an_error_of_ours_in_any_command_is_one_line(run, monkeypatch):
    def fail(repeats, progress):
        raise NotPositiveDefiniteError("Precision of block 'w' is\nnot positive.")

    monkeypatch.setitem(cli.WORKLOADS, "fake", fail)
    assert_one_line_and_code_2(run("bench", "fake"), "Precision of block 'w' is not positive.")


def test_other_errors_are_not_hidden(monkeypatch):
    def fail(repeats, progress):
        raise ZeroDivisionError

    monkeypatch.setitem(cli.WORKLOADS, "fake", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["bench", "fake"])


def test_bench_prints_its_rows_as_json(run, calls):
    code, out, _ = run("bench", "fake", "--json", "--repeats", "3")
    assert code == 0
    assert json.loads(out) == ROWS
    assert calls == [3]


def test_bench_prints_a_table(run, calls):
    code, out, _ = run("bench", "fake")
    assert code == 0
    assert all(text in out for text in ("workload", "peak_mb", "W1", "exact", "1.235", "1700"))
    assert calls == [5]


def test_data_lists_every_set_as_json(run):
    code, out, _ = run("data", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows.keys() == {"mnist-mini", "mnist", "fashion-mnist"}
    assert (rows["mnist-mini"]["num_train"], rows["mnist-mini"]["num_test"]) == (5000, 2000)
    assert rows["mnist"]["path"] is None
    assert "not found" in rows["mnist"]["problem"]


def test_data_prints_a_table(run):
    code, out, _ = run("data")
    assert code == 0
    assert "mnist-mini" in out
    assert "5000" in out
    assert "not found" in out


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "covary", "bench", "nothing"], capture_output=True, text=True, check=False
    )
    assert_one_line_and_code_2((done.returncode, done.stdout, done.stderr), "nothing")


def test_a_plot_is_for_scaling_only(calls, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "fake", "--plot", str(tmp_path / "t.svg")])
    assert stop.value.code == 2
    assert "--plot draws the benchmark 'scaling'" in capsys.readouterr().err
    assert calls == []
