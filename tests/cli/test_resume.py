"""Runs that are stopped, gone on with, and done again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary._lock import locked
from covary.errors import Interrupted
from covary.records import read_run

# A network that tells its own process to end, in the middle of an epoch, at its so-manieth training pass.
NETWORK = """
import os, signal
from torch import nn

class Stopping(nn.Sequential):
    passes = 0

    def forward(self, x):
        if self.training:
            Stopping.passes += 1
            if Stopping.passes == int(os.environ.get("STOP_AT", "0")):
                os.kill(os.getpid(), signal.SIGTERM)
        return super().forward(x)

def network(image_shape, num_outputs):
    return Stopping(nn.Flatten(), nn.Linear(image_shape[1] * image_shape[2], 4), nn.Tanh(), nn.Linear(4, num_outputs))
"""
ARGUMENTS = (
    "--network",
    "stopping:network",
    "--epochs",
    "8",
    "--set",
    "hyper.burn_in=1",
    "--set",
    "weights.batch_size=15",
)
FILES = ("model.safetensors", "augment.json")


@pytest.fixture
def stopped(run, quick, tmp_path) -> Path:
    """The folder of a run that was told to end in its fourth epoch, after the second of three weight steps."""
    (tmp_path / "stopping.py").write_text(NETWORK)
    command = [sys.executable, "-m", "covary", "discover", *quick, *ARGUMENTS, "--out", "stopped"]
    environment = os.environ | {"STOP_AT": "11", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr.splitlines()[-1].startswith("error: Stopped by a signal in epoch 4 of 8")
    assert done.stderr.endswith("'. Run the same command with --resume to continue.\n")
    return Path("stopped")


@pytest.mark.parametrize(
    ("given", "advice"), [((), "--resume"), (("--overwrite",), "--resume in place of --overwrite")]
)
def test_a_stopped_run_names_the_flag_that_continues_it(run, monkeypatch, given, advice):
    def stop(*_arguments, **_options):
        raise Interrupted("Stopped by a signal. Resume to continue.", 15)

    monkeypatch.setattr("covary.experiments.discover", stop)
    outcome = run("discover", "--out", "stopped", *given)
    assert (outcome.code, outcome.out) == (143, "")
    assert outcome.err == f"error: Stopped by a signal. Run the same command with {advice} to continue.\n"


def test_a_stopped_run_goes_on_to_the_same_bits(stopped, run, quick, discovered):
    assert_one_line_and_code_2(run("discover", *quick, *ARGUMENTS, "--out", "stopped"), "unfinished", "--resume")
    other = ("--num-samples", "3", "--out", "stopped", "--resume")
    assert_one_line_and_code_2(run("discover", *quick, *ARGUMENTS, *other), "num_samples = 2", "got 3")
    settings = stopped / "checkpoints" / "settings.json"
    kept = settings.read_text()
    settings.write_text("{")
    damaged = run("discover", *quick, *ARGUMENTS, "--out", "stopped", "--resume")
    assert_one_line_and_code_2(damaged, "settings.json", "cannot be read")
    settings.write_text(kept)
    assert run("verify", "stopped").out.count("ok") == len(list(stopped.glob("checkpoints/learn/checkpoint-*"))) == 1
    with locked(stopped):
        second = run("discover", *quick, *ARGUMENTS, "--out", "stopped", "--resume")
        assert_one_line_and_code_2(second, f"Process {os.getpid()} on host", "has been writing to 'stopped' since")
    (stopped / f".model.safetensors.{2**22 + 1}").touch()  # of a killed process, as is the next
    (stopped / "checkpoints" / "learn" / f".checkpoint-000001-000000.safetensors.{2**22 + 1}").touch()
    resumed = discovered("stopped", *ARGUMENTS, "--resume")
    undisturbed = discovered("undisturbed", *ARGUMENTS)
    for name in FILES:
        assert (resumed / name).read_bytes() == (undisturbed / name).read_bytes()
    assert sorted(path.name for path in resumed.iterdir()) == sorted(path.name for path in undisturbed.iterdir())
    assert not (resumed / "checkpoints").exists()
    other_seed = discovered("other", *ARGUMENTS, "--seed", "1")
    assert (other_seed / FILES[0]).read_bytes() != (undisturbed / FILES[0]).read_bytes()


def test_a_complete_run_is_shown_again_when_it_is_resumed(discovered, run, quick):
    folder = discovered("a")
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.suffix != ".html"}
    outcome = run("discover", *quick, "--out", "a", "--resume")
    assert outcome.code == 0
    assert "rotation" in outcome.out
    assert {path: path.stat().st_mtime_ns for path in written} == written
    changed = run("discover", *quick, "--out", "a", "--resume", "--set", "hyper.augment_lr=0.3")
    assert_one_line_and_code_2(changed, "hyper.augment_lr = None", "got 0.3")


def test_a_complete_run_is_kept_unless_it_is_overwritten(discovered, run, quick):
    first = read_run(discovered("a"))
    refused = run("discover", *quick, "--out", "a", "--seed", "1")
    assert_one_line_and_code_2(refused, "'a' has a complete run", "--overwrite", "--resume")
    assert read_run(Path("a")) == first
    second = read_run(discovered("a", "--seed", "1", "--overwrite"))
    assert (first.config["seed"], second.config["seed"]) == (0, 1)
    assert first.evidence != second.evidence
    both = run("discover", *quick, "--out", "a", "--overwrite", "--resume")
    assert_one_line_and_code_2(both, "--resume continues a run and --overwrite replaces it")


def test_resuming_nothing_starts_anew_and_says_so(run, quick):
    code, _, err = run("discover", *quick, "--out", "a", "--resume")
    assert code == 0, err
    assert err.startswith("There is no run in a to resume: a new one starts.\n")
    assert read_run(Path("a")).complete
    assert "to resume" not in run("discover", *quick, "--out", "a", "--resume").err
