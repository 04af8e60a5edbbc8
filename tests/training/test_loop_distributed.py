"""Fits in one process and in two: the same steps."""

import multiprocessing
import os
import sys

import pytest
import torch

from training.distributed_worker import CASES, fitted_cases, member
from training_models import averaged, in_float64


@pytest.fixture(scope="module")
def groups(tmp_path_factory) -> list[dict[str, dict[str, torch.Tensor]]]:
    """Of this process and of a group of two: case -> everything that a fit has changed."""
    folder = tmp_path_factory.mktemp("groups")
    # Forked from a server that has imported everything, processes begin at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.distributed_worker"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        processes = [context.Process(target=member, args=(rank, folder)) for rank in range(2)]
        for process in processes:
            process.start()
    with in_float64():
        one = fitted_cases()
    for process in processes:
        process.join(timeout=300)
    assert [process.exitcode for process in processes] == [0, 0]
    return [one, torch.load(folder / "two", weights_only=True)]


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


def test_test_data_that_cannot_be_divided_or_read_are_said_alike(groups):
    one, two = (group["tested"] for group in groups)
    torch.testing.assert_close(two["single"], one["single"], rtol=1e-10, atol=1e-10)
    assert one["single"][1] == 1
    assert one["told"] == two["told"] == 1
