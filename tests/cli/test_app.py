"""The command itself: its help, its completion, and how it ends."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import covary
from cli.outcomes import Outcome, assert_one_line_and_code_2
from covary import cli
from covary.benchmarks import WORKLOADS
from covary.cli.app import COMMANDS
from covary.cli.studies import SCALE_NAMES, STUDY_NAMES, WORKLOAD_NAMES
from covary.errors import NotPositiveDefiniteError
from covary.reproduce import SCALES, STUDIES

MOST_SECONDS = 0.5
WITHOUT_TORCH = "import sys; from covary.cli import main\ntry: main()\nfinally: print('torch' in sys.modules)"


def in_a_process(*arguments: str, source: str = "from covary.cli import main; main()", **variables: str) -> str:
    """Standard output of the command in a process of its own."""
    places = {"PYTHONPATH": str(Path(covary.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "", "COLUMNS": "200"}
    command = [sys.executable, "-c", source, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | places | variables
    ).stdout


def seconds_of(*arguments: str) -> float:
    """The processor time of the command, in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    in_a_process(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_COVARY_COMPLETE": "complete_bash"}
    return in_a_process(**script).split()


def failing(error):
    def fail(repeats, progress):
        raise error

    return fail


def test_no_command_prints_help_and_asks_for_one(run):
    code, out, err = run()
    assert code == 2
    assert "Usage" in out
    assert all(command in out for command in COMMANDS)
    assert err == "error: Expected a command; `covary --help` lists them.\n"


def test_version(run):
    assert run("--version") == (0, f"covary {covary.__version__}\n", "")


def test_the_version_is_that_of_the_package():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in pyproject
    assert '[tool.hatch.version]\npath = "src/covary/__init__.py"' in pyproject


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), *((name, "--help") for name in COMMANDS)],
)
def test_help_and_version_import_no_torch(arguments):
    printed = in_a_process(*arguments, source=WITHOUT_TORCH)
    assert printed.endswith("False\n")
    assert arguments != ("--help",) or all(name in printed for name in COMMANDS)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_are_fast(argument):
    assert any(seconds_of(argument) <= MOST_SECONDS for _ in range(5))


def test_names_in_help_are_those_of_the_registries():
    names = (tuple(STUDIES), tuple(SCALES), tuple(WORKLOADS))
    assert names == (STUDY_NAMES, SCALE_NAMES, WORKLOAD_NAMES)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("covary", "re"), ["report", "reproduce"]),
        (("covary", "compare", "--j"), ["--json"]),
        (("covary", "verify", "--"), ["--json", "--help"]),
        (("covary", "reproduce", "to"), ["toy"]),
        (("covary", "discover", "--set", "hyper.prior"), ["hyper.prior_lr=", "hyper.prior_lr_min="]),
        (("covary", "discover", "--data", "mn"), ["mnist-mini", "mnist"]),
        (("covary", "discover", "--pr"), ["--print-config", "--precision"]),
        (("covary", "reproduce", "toy", "--scale", ""), list(SCALES)),
    ],
)
def test_bash_completes(words, expected):
    assert completed(*words) == expected


def test_bash_completion_can_be_installed(tmp_path):
    assert "complete -o default -F _covary_completion covary" in in_a_process("--show-completion", SHELL="/bin/bash")


@pytest.mark.parametrize("command", ["discover", "layers"])
def test_a_dozen_everyday_flags_are_in_panels_before_the_less_common(run, command):
    _, out, _ = run(command, "--help")
    panels = re.findall(r"─ (Data|Network|Training|Output|Settings|Less common) ─", out)
    assert panels == ["Data", "Network", "Training", "Output", "Settings", "Less common"]
    everyday, _, less_common = out.partition("─ Settings ─")
    flags = re.findall(r"│ +(--[a-z-]+)", everyday)
    assert 12 <= len(flags) - 1 <= 14, "and --help"
    assert {"--data", "--epochs", "--out", "--resume"} <= set(flags)
    assert {"--config", "--set", "--device", "--json"} <= set(re.findall(r"│ +(--[a-z-]+)", less_common))
    assert "--print-config prints all settings" in out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples(run, command):
    code, out, err = run(*filter(None, [command]), "--help")
    assert (code, err) == (0, "")
    assert "Examples" in out
    assert f"covary {command}".rstrip() in out.split("Examples")[1]


@pytest.mark.parametrize(("arguments", "word"), [(("discovre",), "discovre"), (("data", "--jsno"), "--jsno")])
def test_a_misspelled_word_is_named(run, arguments, word):
    assert_one_line_and_code_2(run(*arguments), word)


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (("discover", "photos"), "(photos). Write --data photos."),
        (("discover", "--set", "hyper.lr", "0.1"), "(0.1). Write hyper.lr=0.1."),
        (("report", "a", "b"), "(b)"),
    ],
)
def test_an_argument_without_its_option_says_what_to_write(run, arguments, cure):
    outcome = run(*arguments)
    assert_one_line_and_code_2(outcome, cure)
    assert outcome.err.endswith(f"{cure}\n")


def test_an_error_of_ours_in_any_command_is_one_line(run, monkeypatch):
    error = NotPositiveDefiniteError("Precision of block 'w' is\nnot positive.")
    monkeypatch.setitem(WORKLOADS, "fake", failing(error))
    assert_one_line_and_code_2(run("bench", "fake"), "Precision of block 'w' is not positive.")


def test_a_file_that_cannot_be_written_is_one_line(run, discovered, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    assert_one_line_and_code_2(run("report", str(discovered("a")), "--out", "taken/page.html"), "taken")


def test_other_errors_are_not_hidden(monkeypatch):
    monkeypatch.setitem(WORKLOADS, "fake", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["bench", "fake"])


def test_runs_as_a_module():
    command = [sys.executable, "-m", "covary", "bench", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_one_line_and_code_2(Outcome(done.returncode, done.stdout, done.stderr), "nothing")
