"""Data as batches with identities.

A batch is (x, y, index): inputs, targets, and the identity of each datum; noise is a function of the identity.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, default_collate

from ._types import SampleAveraging
from .errors import DataError
from .noise import Stream, permutation

# (x, y), (x, y, index), a Dataset of (x, y), or an iterable of such batches that can be read more than once
Data = tuple[Tensor, ...] | Dataset[Any] | Iterable[Any]
BATCH_SIZE = 1000


class IndexedBatch(NamedTuple):
    """Inputs (N, ...), targets (N, ...) and identities (N,)."""

    x: Tensor
    y: Tensor
    identity: Int[Tensor, " N"]


@dataclass(frozen=True)
class Batches:
    """A data set that can be read batch by batch, any number of times.

    Arguments:
        read: From positions to a batch, or None for an iterable of batches.
        num_data: The number of data where positions can be read, else 0.
        batch_size: The number of data in a batch.
        stream: Makes an iterator of batches, for an iterable of batches.
    """

    read: Callable[[Int[Tensor, " N"]], IndexedBatch] | None
    num_data: int
    batch_size: int
    stream: Callable[[], Iterator[IndexedBatch]] | None = None

    def __iter__(self) -> Iterator[IndexedBatch]:
        """The batches in their order, each checked once."""
        batches = self.stream() if self.stream is not None else self._cut(torch.arange(self.num_data))
        empty = True
        for batch in batches:
            empty = False
            yield _checked(batch)
        if empty:
            raise DataError("Expected at least one datum, got empty data.")

    def subset(self, num_data: int, seed: int) -> "Batches":
        """A random subset of the data, a function of the seed."""
        if self.read is not None and not 1 <= num_data <= self.num_data:
            raise DataError(f"Expected a subset of 1 to {self.num_data} data, got {num_data}.")
        return self.at(permutation(seed, self.num_data, stream=Stream.SUBSET)[:num_data])

    def at(self, positions: Int[Tensor, " M"]) -> "Batches":
        """The data at these positions, in this order; `DataError` for an iterable of batches."""
        read = self.read
        if read is None:
            raise DataError(
                "Expected data that can be read one by one, got an iterable of batches. Pass a pair of tensors or a "
                "Dataset."
            )
        return Batches(lambda rows: read(positions[rows]), len(positions), self.batch_size)

    def _cut(self, positions: Tensor) -> Iterator[IndexedBatch]:
        assert self.read is not None, "a data set has positions or a stream"
        for rows in positions.split(self.batch_size):
            if len(rows):
                yield self.read(rows)


def as_batches(data: Data, batch_size: int | None = None) -> Batches:
    """The batches of a pair of tensors, a `Dataset`, or an iterable of batches.

    Arguments:
        data: The tensors (x, y) or (x, y, index); a `Dataset` of (x, y); batches as they are; or an iterable of batches
            that can be read more than once (a list, a `DataLoader`), where the identity of a datum is its position
            unless it is given.
        batch_size: The number of data in a batch, for data that can be read one by one; 1,000 by default.

    Example:
        >>> import torch, covary
        >>> batches = covary.as_batches((torch.randn(10, 4), torch.arange(10) % 3), batch_size=4)
        >>> [len(batch.x) for batch in batches]
        [4, 4, 2]
    """
    size = BATCH_SIZE if batch_size is None else batch_size
    if size < 1:
        raise DataError(f"Expected batch_size of at least 1, got {size}.")
    if isinstance(data, Batches):
        return data
    if isinstance(data, tuple) and len(data) in (2, 3) and all(isinstance(part, Tensor) for part in data):
        return _of_tensors(data, size)
    if isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler) and len(data.dataset[0]) < 3:
        raise DataError(
            "Expected a DataLoader that does not shuffle: a datum in another position would get other noise. Pass its "
            "Dataset, or a loader whose batches are (x, y, index)."
        )
    if isinstance(data, Dataset) and hasattr(data, "__len__") and not isinstance(data, IterableDataset):
        return Batches(lambda positions: _collated(data, positions), len(data), size)
    if isinstance(data, Iterable) and not isinstance(data, (Iterator, Tensor, str, dict)):
        return Batches(None, 0, size, lambda: _streamed(data))
    raise DataError(
        f"Expected a pair of tensors (x, y), a Dataset, or an iterable of batches that can be read more than once, got "
        f"{type(data).__name__}. Wrap a generator in list(...)."
    )


def outputs_of(network: nn.Module, batch: IndexedBatch, seed: int) -> Tensor:
    """Outputs (N, C) of a network for a batch; the noise of an averaged network is a function of (seed, identity)."""
    if isinstance(network, SampleAveraging):
        return network(batch.x, batch.identity, seed=seed)
    return network(batch.x)


class Contents(NamedTuple):
    """The number of data in a data set, and a checksum of all of them."""

    num_data: int
    checksum: int


def read_through(batches: Batches) -> Contents:
    """The size and checksum of a data set, each of whose data has been checked once."""
    num_data, checksum = 0, 0
    for batch in batches:
        num_data += len(batch.x)
        for part in batch:
            checksum = zlib.crc32(part.detach().cpu().contiguous().numpy().data, checksum)
    return Contents(num_data, checksum)


def _of_tensors(data: tuple[Tensor, ...], batch_size: int) -> Batches:
    x, y = data[:2]
    index = data[2] if len(data) == 3 else torch.arange(len(x), device=x.device)
    if not len(x) == len(y) == len(index):
        raise DataError(f"Expected equally many inputs, targets and indices, got {len(x)}, {len(y)} and {len(index)}.")
    return Batches(lambda rows: IndexedBatch(x[rows], y[rows], index[rows]), len(x), batch_size)


def _collated(data: Any, positions: Tensor) -> IndexedBatch:
    # a process may have no data of the last batch: its empty shard still needs the shape of a datum
    rows = positions.tolist() or [0]
    x, y = default_collate([data[row] for row in rows])
    return IndexedBatch(x[: len(positions)], y[: len(positions)], positions.to(x.device))


def _streamed(data: Iterable[Any]) -> Iterator[IndexedBatch]:
    seen = 0
    for batch in data:
        if not (isinstance(batch, (tuple, list)) and len(batch) in (2, 3)):
            raise DataError(f"Expected batches (x, y) or (x, y, index), got {type(batch).__name__}.")
        x, y = batch[:2]
        yield IndexedBatch(x, y, batch[2] if len(batch) == 3 else torch.arange(seen, seen + len(x), device=x.device))
        seen += len(x)


def _checked(batch: IndexedBatch) -> IndexedBatch:
    if batch.x.is_floating_point() and not bool(batch.x.isfinite().all()):
        bad = int(batch.identity[(~batch.x.isfinite()).reshape(len(batch.x), -1).any(1)][0])
        raise DataError(f"The inputs of datum {bad} are not finite (NaN or infinity). Fix or remove it.")
    return batch
