"""What reaches a terminal: no control characters of the data, and only letters that it has."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.table import Table
from rich.text import Text

import covary
from covary._text import CONTROL
from covary.cli import output, terminal
from covary.records import write_run
from report.runs import full_run

HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9bm"
SHOWN = r"\u001b]0;owned\u0007\u001b[31m\u009bm"
MAIN = "from covary.cli import main; main()"


def controls(text: str) -> list[str]:
    return [letter for letter in CONTROL.findall(text) if letter != "\n"]


def test_texts_in_tables_are_escaped_and_styles_are_kept():
    stream = io.StringIO()
    console = terminal.PlainConsole(file=stream, force_terminal=True, color_system="standard", width=120)
    table = Table("name")
    table.add_row(Text(HOSTILE, style="red"))
    console.print(table, Text(HOSTILE))
    printed = stream.getvalue()
    assert printed.count(r"\u001b]0;own") == 2  # a cell is cropped
    assert "\x1b[31m" in printed, "the console's own"
    assert not any(letter in printed for letter in ("\x1b]", "\x07", "\x9b"))


def test_a_progress_bar_escapes_its_text(monkeypatch):
    stream = io.StringIO()
    console = terminal.PlainConsole(file=stream, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(output, "CONSOLE", console)
    with output.progress("fetch") as told:
        told(HOSTILE, 0.5)
    assert r"\u001b]0;own" in stream.getvalue()
    assert not any(letter in stream.getvalue() for letter in ("\x1b]", "\x07", "\x9b"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", HOSTILE),
        ("compare", HOSTILE, HOSTILE),
        ("discover", "--data", HOSTILE),
        ("discover", "--data", f"{HOSTILE}.npz"),
        ("discover", f"--{HOSTILE}"),
        ("discover", "--set", HOSTILE),
        ("discover", "--set", f"{HOSTILE}=1"),
        ("discover", "--config", HOSTILE),
        ("data", "--fetch", HOSTILE),
        (HOSTILE,),
    ],
    ids=range(10),
)
def test_errors_show_control_characters_as_escapes(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert controls(err) == []
    assert "u001b" in err or "x1b" in err


def test_names_of_files_are_printed_as_escapes_and_written_as_they_are(run, discovered, tmp_path):
    discovered("a")
    folder = tmp_path / f"new{HOSTILE}"
    folder.mkdir()
    names = [f"{HOSTILE}.png", os.fsdecode(b"\xff.png")]
    for name in names:
        Image.fromarray(np.full((6, 6), 9, dtype=np.uint8)).save(folder / name)
    code, out, err = run("predict", "a", "--data", str(folder))
    assert (code, err) == (0, "")
    assert controls(out) == []
    assert SHOWN in out
    assert r"\udcff.png" in out
    assert controls(run("predict", "a", "--data", str(folder), "--json").out) == []
    assert run("predict", "a", "--data", str(folder), "--out", "classes.csv").code == 0
    assert os.fsencode(names[0]) in (tmp_path / "classes.csv").read_bytes()
    assert b"\xff.png" in (tmp_path / "classes.csv").read_bytes()


def test_a_folder_of_a_class_that_no_record_could_hold_is_refused_before_training(run, tmp_path):
    for name in ("dog", f"cat{HOSTILE}"):
        (tmp_path / "animals" / name).mkdir(parents=True)
        Image.fromarray(np.full((6, 6), 9, dtype=np.uint8)).save(tmp_path / "animals" / name / "1.png")
    code, out, err = run("discover", "--data", "animals", "--network", "mlp:2", "--epochs", "1", "--out", "a")
    assert (code, out) == (2, "")
    assert "animals has the class 'cat" in err
    assert "expected text without control characters" in err
    assert controls(err) == []
    assert not (tmp_path / "a").exists()


def test_a_long_value_is_not_echoed_whole(run):
    for arguments in (
        ("report", "x" * 20_000),
        ("discover", "--set", f"{'x' * 20_000}=1"),
        ("discover", "--data", "x" * 20_000),
        ("discover", "--network", "x" * 20_000, "--estimate"),
        ("discover", "--augment", "x" * 20_000),
        ("discover", "--epochs", "x" * 20_000),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert len(err) < terminal.LONGEST + 10


def test_a_terminal_that_knows_only_ascii_gets_the_result(tmp_path):
    record = full_run()
    for name in ("a", "b"):
        write_run(replace(record, title="Äpfel ±1, 30° … 漢🐶"), tmp_path / name / "run.json")
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "COLUMNS": "160"}
    places = {"PYTHONPATH": str(Path(covary.__file__).parents[1])}
    command = [sys.executable, "-P", "-c", MAIN, "compare", "a", "b"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | plain | places, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u00c4pfel +/-1, 30 deg ... \u6f22\U0001f436" in done.stdout
    assert done.stdout.isascii()


def test_output_to_a_full_disk_is_one_line(tmp_path):
    write_run(full_run(), tmp_path / "run.json")
    places = {"PYTHONPATH": str(Path(covary.__file__).parents[1])}
    command = [sys.executable, "-P", "-c", MAIN, "compare", ".", "."]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | places, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: The output cannot be written: No space left on device.")
    assert done.stderr.count("\n") == 1


def test_a_closed_output_and_a_removed_working_directory_are_no_traceback(tmp_path):
    place, source = tmp_path / "removed", str(Path(covary.__file__).parents[1])
    place.mkdir()
    command = f"{sys.executable} -m covary --version"
    script = f"cd {place} && rmdir {place} && {command} >&- && {command}"
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"covary {covary.__version__}\n", "")
