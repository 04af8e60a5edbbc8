"""Sums over processes: each process sees its shard of the data, every sum is the sum of all."""

import torch
from torch import Tensor, distributed

__all__ = ["all_max", "all_sum", "all_sum_number"]


def all_sum(value: Tensor) -> Tensor:
    """The sum of a tensor over the processes of the default group; the tensor itself where there is none."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    total = value.detach().clone().contiguous()
    distributed.all_reduce(total)
    return total


def all_max(value: Tensor) -> Tensor:
    """The entrywise maximum of a tensor over the processes; the tensor itself where there is one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    largest = value.detach().clone().contiguous()
    distributed.all_reduce(largest, distributed.ReduceOp.MAX)
    return largest


def all_sum_number(value: int) -> int:
    """The sum of a number over the processes."""
    return int(all_sum(torch.tensor(value)))
