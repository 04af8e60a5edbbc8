"""Two processes under torchrun: the same widths, and one table."""

import os
import subprocess
import sys

import pytest

from covary.records import read_run

ARGUMENTS = (
    *("--set", "dtype=float64", "--epochs", "2", "--set", "hyper.burn_in=0", "--set", "weights.batch_size=15"),
    *("--set", "hyper.width_optimizer=adam"),  # which moves widths from the first hyper step on
)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(run, quick, discovered, tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "covary"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*launcher, "discover", *quick, *ARGUMENTS, "--out", "two"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("│ vertical shift ") == done.stdout.count("nats per datum") == 1
    assert done.stdout.count("The report is in two/report.html.") == 1
    one, two = read_run(discovered("one", *ARGUMENTS)), read_run(tmp_path / "two")
    assert len(one.history) == 2
    for ours, theirs in zip(one.history, two.history, strict=True):
        assert theirs.widths == pytest.approx(ours.widths, abs=1e-10)
        assert theirs.precisions == pytest.approx(ours.precisions, rel=1e-10)
    assert two.evidence.log_evidence == pytest.approx(one.evidence.log_evidence, rel=1e-10)
    assert one.history[-1].widths["rotation"] != pytest.approx(0.05, abs=1e-2), "it has left its start"
