"""The command itself: how it helps, and how it ends."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from cli.outcomes import Outcome, assert_one_line_and_code_2
from covary import cli
from covary.errors import NotPositiveDefiniteError

COMMANDS = ("discover", "layers", "report", "compare", "reproduce", "data", "bench")


def failing(error):
    def fail(repeats, progress):
        raise error

    return fail


def test_no_command_prints_help_and_asks_for_one(run):
    code, out, err = run()
    assert code == 2
    assert "Usage" in out
    assert all(command in out for command in COMMANDS)
    assert err == "error: give a command; `covary --help` lists them.\n"


def test_version(run):
    assert run("--version") == (0, f"covary {version('covary')}\n", "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples(run, command):
    code, out, err = run(*filter(None, [command]), "--help")
    assert (code, err) == (0, "")
    assert "Examples" in out
    assert f"covary {command}".rstrip() in out.split("Examples")[1]


@pytest.mark.parametrize(("arguments", "word"), [(("discovre",), "discovre"), (("data", "--jsno"), "--jsno")])
def test_a_misspelled_word_is_named(run, arguments, word):
    assert_one_line_and_code_2(run(*arguments), word)


def test_an_error_of_ours_in_any_command_is_one_line(run, monkeypatch):
    error = NotPositiveDefiniteError("Precision of block 'w' is\nnot positive.")
    monkeypatch.setitem(cli.benchmarks.WORKLOADS, "fake", failing(error))
    assert_one_line_and_code_2(run("bench", "fake"), "Precision of block 'w' is not positive.")


def test_a_file_that_cannot_be_written_is_one_line(run, discovered, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    assert_one_line_and_code_2(run("report", str(discovered("a")), "--out", "taken/page.html"), "taken")


def test_other_errors_are_not_hidden(monkeypatch):
    monkeypatch.setitem(cli.benchmarks.WORKLOADS, "fake", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["bench", "fake"])


def test_runs_as_a_module():
    command = [sys.executable, "-m", "covary", "bench", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_one_line_and_code_2(Outcome(done.returncode, done.stdout, done.stderr), "nothing")
