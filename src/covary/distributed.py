"""Processes: the rank of this one, its shard of the data, and sums over all of them.

Every sum over data is the sum over processes of sums over shards. Without an initialized `torch.distributed` process
group there is one process, and every function here is the identity.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor, distributed

from ._lock import locked
from .batches import Batches
from .errors import CovaryError, DataError, StructureError

Result = TypeVar("Result")
Place = tuple[int, int]  # the rank of this process, and the number of processes
Parts = tuple[Tensor, ...]  # a result
Kinds = list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]  # shape, strides and type of each part


def place() -> Place:
    """The rank of this process and the number of processes; (0, 1) without a process group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


@contextmanager
def process_group() -> Iterator[None]:
    """Join the process group that a launcher such as torchrun describes in the environment, if there is one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        yield
        return
    # sums of numbers stay on the CPU, those of factors are on the network's device
    distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def require_alike(value: object, what: str) -> None:
    """Raise `StructureError` in every process if they do not start with equal values."""
    if place()[1] == 1:
        return
    found: list[object] = [None] * place()[1]
    distributed.all_gather_object(found, value)
    if any(other != found[0] for other in found):
        raise StructureError(
            f"Expected the same {what} in all processes, got different ones. Build networks from the same seed in "
            "each, pass each the same data, and keep checkpoints in a folder that all of them see."
        )


def is_first() -> bool:
    """Whether this process writes files and prints."""
    return place()[0] == 0


def on_first(compute: Callable[[], Result]) -> Result:
    """What the first process computes, in every process; an error of covary or of a file is raised in every one."""
    outcome: list[object] = [None, None]
    if is_first():
        try:
            outcome[0] = compute()
        except (CovaryError, OSError) as error:
            outcome[1] = error
    if place()[1] > 1:
        distributed.broadcast_object_list(outcome)
    if isinstance(outcome[1], Exception):
        raise outcome[1]
    return cast(Result, outcome[0])


def in_each(compute: Callable[[], Result]) -> list[Result]:
    """What each process computes, by rank and in every one; it must not raise, or the others wait for it."""
    found: list[Any] = [compute()]
    if place()[1] > 1:
        own_result, found = found[0], [None] * place()[1]
        distributed.all_gather_object(found, own_result)
    return found


@contextmanager
def sole_writer(folder: Path | None) -> Iterator[None]:
    """Hold the lock of a folder for all processes of this job, or raise `StructureError` that names its holder."""
    with ExitStack() as held:
        if folder is not None:
            on_first(lambda: held.enter_context(locked(folder)))
        yield


def own(positions: Int[Tensor, " N"]) -> Int[Tensor, " n"]:
    """The positions of this process: every W-th of W processes, starting at its rank."""
    rank, world = place()
    return positions[rank::world]


def own_part(batches: Batches) -> Batches:
    """The shard of this process."""
    if place()[1] == 1:
        return batches
    if batches.num_data < place()[1]:
        raise DataError(
            f"Expected at least one datum for each of {place()[1]} processes, got "
            f"{batches.num_data or 'an iterable of batches'}. Pass a pair of tensors or a larger Dataset."
        )
    return batches.at(own(torch.arange(batches.num_data, device="cpu")))


def all_sum(value: Tensor) -> Tensor:
    """The sum of a tensor over the processes of the default group; its derivative is that of this process's term."""
    return all_sum_each([value])[0]


def all_sum_each(values: Sequence[Tensor]) -> list[Tensor]:
    """The sums of several tensors as by `all_sum`, with one message for all of a type and device.

    A message takes a fraction of a millisecond, however short it is.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return list(values)
    found = list(values)
    for kind in dict.fromkeys((value.dtype, value.device) for value in values):
        alike = [number for number, value in enumerate(values) if (value.dtype, value.device) == kind]
        total = torch.cat([values[number].detach().flatten() for number in alike])
        distributed.all_reduce(total)
        parts = total.split([values[number].numel() for number in alike])
        for number, part in zip(alike, parts, strict=True):
            value, sum_of_all = values[number], part.view(values[number].shape)
            found[number] = value + (sum_of_all - value.detach()) if value.requires_grad else sum_of_all
    return found


def all_max(value: Tensor) -> Tensor:
    """The entrywise maximum of a tensor over the processes; the tensor itself where there is one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    largest = value.detach().clone().contiguous()
    distributed.all_reduce(largest, distributed.ReduceOp.MAX)
    return largest


def divided(
    compute: Callable[[list[int]], list[Parts]], costs: Sequence[float | int], device: torch.device
) -> list[Parts]:
    """The results of several items, each computed by one process and then in all: the same bits in each.

    The most costly item goes to the first process, and each further one to the process with the least to do. An error
    of covary is raised in every process.

    Arguments:
        compute: From the numbers of items to their results.
        costs: The cost of each item, alike in all processes.
        device: The device of the results.
    """
    rank, world = place()
    owners, loads = [0] * len(costs), [0.0] * world
    for item in sorted(range(len(costs)), key=lambda number: (-costs[number], number)):
        owners[item] = loads.index(min(loads))
        loads[owners[item]] += costs[item]
    found, outcome = _tried(compute, [item for item, owner in enumerate(owners) if owner == rank])
    outcomes: list[Any] = [None] * world
    distributed.all_gather_object(outcomes, outcome)
    if errors := [error for error in outcomes if isinstance(error, CovaryError)]:
        raise errors[0]
    for item, owner in enumerate(owners):
        if owner != rank:
            kinds = outcomes[owner][item]
            found[item] = tuple(torch.empty_strided(*sizes, dtype=kind, device=device) for *sizes, kind in kinds)
        for part in found[item]:
            distributed.broadcast(part.as_strided((part.numel(),), (1,)), owner)  # in the order of its memory
    return [found[item] for item in range(len(costs))]


def _tried(
    compute: Callable[[list[int]], list[Parts]], items: list[int]
) -> tuple[dict[int, Parts], dict[int, Kinds] | CovaryError]:
    """The results of these items, and what another process must know of them: their kinds, or the error."""
    try:
        found = dict(zip(items, compute(items), strict=True))
    except CovaryError as error:
        return {}, error
    kinds = {item: [(tuple(p.shape), p.stride(), p.dtype) for p in parts] for item, parts in found.items()}
    return found, kinds


def all_sum_number(value: int) -> int:
    """The sum of a number over the processes."""
    return int(all_sum(torch.tensor(value, device="cpu")))
