"""The short form of `make torture`: a few kills, damaged files and second writers, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_few_trials_of_each_kind_hold():
    tests = Path(__file__).parents[1]
    places = os.pathsep.join([str(tests), str(tests.parent / "src")])
    environment = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torture", "--quick", "--processes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[-3:] for line in done.stdout.splitlines() if ": " in line and not line.startswith("-")]
    assert len(rows) >= 9
    assert all(tried == held != "0" and short == "0" for tried, held, short in rows), done.stdout
