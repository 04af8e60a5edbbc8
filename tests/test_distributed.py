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


@pytest.fixture(scope="module")
def groups(tmp_path_factory) -> dict[int, dict[str, dict[str, torch.Tensor]]]:
    """Size of the group -> type -> everything that its first process has found."""
    folder = tmp_path_factory.mktemp("groups")
    commands = {
        size: [
            [
                sys.executable,
                str(WORKER),
                str(rank),
                str(size),
                str(folder / f"meet-{size}"),
                str(folder / f"{size}.pt"),
            ]
            for rank in range(size)
        ]
        for size in (1, 2)
    }
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(command, env=environment) for group in commands.values() for command in group]
    assert [process.wait(timeout=300) for process in processes] == [0] * 3
    return {size: torch.load(folder / f"{size}.pt", weights_only=True) for size in commands}


@pytest.mark.parametrize(("name", "tolerance"), [("float64", 1e-10), ("float32", 1e-6)])
def test_two_processes_agree_with_one(name, tolerance, groups):
    one, two = groups[1][name], groups[2][name]
    assert set(one) == set(two)
    for key, value in one.items():
        scale = float(value.abs().max()) + 1.0
        torch.testing.assert_close(two[key], value, rtol=tolerance, atol=tolerance * scale)


def test_a_group_of_one_agrees_with_no_group(groups):
    network, likelihood, prior, data = model(torch.float64)
    grouped = groups[1]["float64"]
    alone = covary.log_evidence(covary.Model(network, likelihood, prior), data, mode_correction=True)
    torch.testing.assert_close(grouped["kron evidence"], alone.log_evidence, rtol=1e-12, atol=0)
    assert int(grouped["kron count"]) == 9


def test_divided_decompositions_are_the_same_to_the_last_bit(groups):
    """Of matrices that each process would decompose by itself, and of those that one process decomposes for all."""
    alone, divided = groups[2]["float32"], groups[2]["divided"]
    assert all(torch.equal(divided[key], value) for key, value in alone.items())


def test_items_are_divided_by_their_costs(groups):
    one, two = groups[1]["shared"], groups[2]["shared"]
    assert one["who"].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert two["who"].tolist() == [[0, 0], [0, 1], [1, 2], [1, 3]]
    assert torch.equal(one["parts"], two["parts"])
    assert two["strides"].tolist() == [[1, 3]] * 4, "as they were in the process that computed them"


def test_an_error_of_one_process_is_raised_in_all(groups):
    assert groups[2]["error"] == "from process 1"


def test_sums_of_several_tensors_keep_types_shapes_and_their_own_derivatives(groups):
    found = groups[2]["shared"]
    assert torch.equal(found["a"], torch.full((2, 1), 2.0))
    assert torch.equal(found["b"], torch.tensor(1))
    assert torch.equal(found["c"], torch.full((3,), 4.0))
    assert torch.equal(found["d"], torch.full((2,), 6.0))
    assert torch.equal(found["derivative"], torch.full((2,), 3.0)), "that of this process's term"
