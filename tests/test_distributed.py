"""One process and two: the same evidence and the same gradients."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import covary
from evidence.distributed_worker import model

WORKER = Path(__file__).parent / "evidence" / "distributed_worker.py"


def run_group(size: int, name: str, folder: Path) -> dict[str, torch.Tensor]:
    out = folder / f"{size}-{name}.pt"
    commands = [
        [sys.executable, str(WORKER), str(rank), str(size), str(folder / f"meet-{size}-{name}"), str(out), name]
        for rank in range(size)
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(timeout=120) for process in processes] == [0] * size
    return torch.load(out, weights_only=True)


@pytest.mark.parametrize(("name", "tolerance"), [("float64", 1e-10), ("float32", 1e-6)])
def test_two_processes_agree_with_one(name, tolerance, tmp_path):
    one, two = run_group(1, name, tmp_path), run_group(2, name, tmp_path)
    assert set(one) == set(two)
    for key, value in one.items():
        scale = float(value.abs().max()) + 1.0
        torch.testing.assert_close(two[key], value, rtol=tolerance, atol=tolerance * scale)


def test_a_group_of_one_agrees_with_no_group(tmp_path):
    network, likelihood, prior, data = model(torch.float64)
    grouped = run_group(1, "float64", tmp_path)
    alone = covary.log_evidence(covary.Model(network, likelihood, prior), data, mode_correction=True)
    torch.testing.assert_close(grouped["kron evidence"], alone.log_evidence, rtol=1e-12, atol=0)
    assert int(grouped["kron count"]) == 9
