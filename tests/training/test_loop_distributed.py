"""Fits in one process and in two: the same steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from training.distributed_worker import CASES, fitted_cases
from training_models import averaged, in_float64

WORKER = Path(__file__).parent / "distributed_worker.py"


@pytest.fixture(scope="module")
def groups(tmp_path_factory) -> list[dict[str, dict[str, torch.Tensor]]]:
    """Of this process and of two under torchrun: case -> everything that a fit has changed."""
    out = tmp_path_factory.mktemp("groups") / "two"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*launcher, str(WORKER), str(out)], env=environment, check=True, timeout=300)
    with in_float64():
        return [fitted_cases(), torch.load(out, weights_only=True)]


@pytest.mark.parametrize("case", CASES)
def test_one_and_two_processes_take_the_same_first_steps(groups, case):
    """Nine steps of weights, three or more of all else, unequal shards, M of N data in the second pass or a block.

    With blocks of 40 there is one, and the second process has none.
    """
    one, two = (group[case] for group in groups)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-10, atol=1e-10, msg=name)
    assert one["prior/log_precision"].abs().min() > 0, "every precision has left 1"
    if CASES[case][0] != "kernel":
        assert not torch.equal(one["network/augment.raw_widths"], averaged().augment.raw_widths)


def test_one_and_two_processes_learn_alike_in_a_loop_of_ones_own(groups):
    one, two = (group["learner"] for group in groups)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-10, atol=1e-10, msg=name)
    assert float(one["numbers"][-1]) != pytest.approx(0.3, rel=1e-3), "the width has been learned"
