"""A record names code only as text, and files of the working directory replace no module."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import covary
from cli.outcomes import assert_one_line_and_code_2
from covary.records import read_run, write_run
from report.runs import full_run

# A module that leaves a file when it is imported, and returns what each command asks for.
EVIL = """
from pathlib import Path
Path("executed").write_text("")
import numpy as np
from torch import nn
def load():
    return np.load("bars.npz")["x_train"], np.load("bars.npz")["y_train"]
def network(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[1] * shape[2], outputs))
"""

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")


@pytest.fixture
def foreign(discovered, tmp_path, monkeypatch) -> Path:
    """The folder of a run whose record names functions as data and as network, with their module beside it."""
    folder = discovered("a", "--augment", "none")
    record = read_run(folder)
    named = record.config | {"data": "evil:load", "network": "evil:network"}
    write_run(replace(record, config=named, model=record.model | {"network": {"kind": "custom"}}), folder / "run.json")
    (tmp_path / "evil.py").write_text(EVIL)
    yield folder
    sys.modules.pop("evil", None)


def test_no_command_executes_what_a_record_names(run, foreign, images, tmp_path):
    assert_one_line_and_code_2(run("geometry", "a"), "names a function as 'data', 'evil:load'", "--trust-code")
    by_name = run("geometry", "a", "--data", str(images))
    assert_one_line_and_code_2(by_name, "names a function as 'network', 'evil:network'", "--network")
    refused = run("predict", "a", "--data", str(images))
    assert_one_line_and_code_2(refused, "Pass `--network evil:network`", "--trust-code")
    assert run("report", "a").code == 0
    assert run("compare", "a", "a").code == 0
    with pytest.raises(covary.errors.StructureError, match="one of your own"):
        covary.load("a")
    assert not (tmp_path / "executed").exists()


def test_what_the_user_passes_is_called(run, discovered, images, tmp_path):
    (tmp_path / "evil.py").write_text(EVIL)
    discovered("a", "--augment", "none", "--network", "evil:network", "--data", "evil:load")
    sys.modules.pop("evil")
    (tmp_path / "executed").unlink()
    given = ("--network", "evil:network", "--data", "evil:load")
    first, second = (run("geometry", "a", "--images", "5", "--json", *more) for more in (given, ["--trust-code"]))
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert json.loads(first.out)["rows"] == json.loads(second.out)["rows"]
    predicted = [run("predict", "a", "--data", str(images), *more) for more in (given[:2], ["--trust-code"])]
    assert predicted[0] == predicted[1]
    assert predicted[0].code == 0
    assert (tmp_path / "executed").exists(), "the control: a function is imported where the user says so"
    sys.modules.pop("evil")


SHADOWED = ("secrets", "base64", "json", "jinja2", "markupsafe", "csv", "torch", "numpy", "matplotlib", "rich", "evil")


@pytest.mark.parametrize("start", [("-c", "from covary.cli import main; main()"), ("-m", "covary")])
def test_files_in_the_working_directory_replace_no_module_and_no_settings(tmp_path, start):
    write_run(full_run(), tmp_path / "run.json")
    os.mkfifo(tmp_path / "matplotlibrc")  # which matplotlib would read, and wait forever
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text(f"open('executed-{name}', 'w')\n")
    places = {"PYTHONPATH": str(Path(covary.__file__).parents[1]), "PATH": ""}
    if start[0] == "-c":  # as the installed command: without the working directory, which `-c` puts first
        start = ("-P", *start)
    command = [sys.executable, *start, "report", "."]
    done = subprocess.run(command, cwd=tmp_path, env=places, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("executed-*")) == []
    assert (tmp_path / "report.html").exists()
