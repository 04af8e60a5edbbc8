"""Data as batches with identities.

A batch is (x, y, index): inputs, targets, and the identity of each datum; noise is a function of the identity.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from ._fields import Keys, as_inputs, as_targets, fields_of, hashed
from ._text import warn_once
from ._types import SampleAveraging, require_tensor
from .errors import DataError, UnsupportedLayerError
from .noise import Stream, permutation

# arrays or tensors (x, y) or (x, y, index), a dictionary of them, a data set, or an iterable of batches that can be
# read more than once
Data = tuple[Any, ...] | Mapping[str, Any] | Dataset[Any] | Iterable[Any]
BATCH_SIZE = 1000


class IndexedBatch(NamedTuple):
    """Inputs (N, ...), targets (N, ...) and identities (N,)."""

    x: Tensor
    y: Tensor
    identity: Int[Tensor, " N"]


@dataclass(frozen=True)
class Batches:
    """A data set that can be read batch by batch, any number of times."""

    # from positions to a batch, or None for an iterable of batches
    read: Callable[[Int[Tensor, " N"]], IndexedBatch] | None
    num_data: int  # the number of data where positions can be read, else 0
    batch_size: int  # the number of data in a batch
    # makes an iterator of batches, for an iterable of batches
    stream: Callable[[], Iterator[IndexedBatch]] | None = None

    def __iter__(self) -> Iterator[IndexedBatch]:
        """The batches in their order, each checked once."""
        batches = self.stream() if self.stream is not None else self._cut(torch.arange(self.num_data, device="cpu"))
        empty = True
        for batch in batches:
            yield _checked(batch, first=empty)
            empty = False
        if empty:
            raise DataError("Expected at least one datum, got empty data.")

    def matching(self, network: nn.Module) -> "Batches":
        """The batches on the device of a network, their floating inputs and targets in its dtype."""
        like = next((p for p in network.parameters() if p.is_floating_point()), None)
        if like is None:
            return self
        dtype, device = like.dtype, like.device

        def moved(batch: IndexedBatch) -> IndexedBatch:
            return IndexedBatch(*(part.to(device, dtype if part.is_floating_point() else None) for part in batch))

        read, stream = self.read, self.stream
        return replace(
            self,
            read=None if read is None else lambda positions: moved(read(positions)),
            stream=None if stream is None else lambda: map(moved, stream()),
        )

    def subset(self, num_data: int, seed: int) -> "Batches":
        """A random subset of the data, a function of the seed."""
        if self.read is not None and not 1 <= num_data <= self.num_data:
            raise DataError(f"Expected a subset of 1 to {self.num_data} data, got {num_data}.")
        return self.at(permutation(seed, self.num_data, stream=Stream.SUBSET)[:num_data])

    def few(self, number: int) -> IndexedBatch:
        """Random data, up to this number and the same in every call; of an iterable of batches, of the first one."""
        if self.read is None or not self.num_data:  # iterating refuses empty data
            first = next(iter(self))
            rows = permutation(0, len(first.x), stream=Stream.SUBSET)[:number].to(first.x.device)
            return IndexedBatch(*(part[rows] for part in first))
        return next(iter(replace(self.subset(min(number, self.num_data), 0), batch_size=number)))

    def at(self, positions: Int[Tensor, " M"]) -> "Batches":
        """The data at these positions, in this order; `DataError` for an iterable of batches."""
        read = self.read
        if read is None:
            raise DataError(
                "Expected data that can be read one by one, got an iterable of batches. Pass a pair of tensors or a "
                "Dataset: of a DataLoader, loader.dataset. fit also trains on batches as they are with "
                "hyper.estimator='two_pass' and hyper.num_data=None."
            )
        return Batches(lambda rows: read(positions[rows]), len(positions), self.batch_size)

    def _cut(self, positions: Tensor) -> Iterator[IndexedBatch]:
        assert self.read is not None, "a data set has positions or a stream"
        for rows in positions.split(self.batch_size):
            if len(rows):
                yield self.read(rows)


def as_batches(data: Data, batch_size: int | None = None, keys: Keys | None = None) -> Batches:
    """The batches of arrays or tensors, of a data set, or of an iterable of batches.

    Inputs of type uint8 are bytes of images and become floats in [0, 1]; integer targets become int64. The identity of
    a datum, on which its noise depends, is the third field or the key "index" where there is one. Otherwise it is the
    position of the datum, or a hash of its input for a `DataLoader` that reads in another order than the data set's.

    Arguments:
        data: Tensors or NumPy arrays (x, y) or (x, y, index), y also a list, or a dictionary of them; a torch `Dataset`
            of tuples or dictionaries; a Hugging Face data set; a `covary.data.Dataset`, for its training part; a
            `DataLoader`, of which one that shuffles is replaced by its data set, read by position in this process;
            batches as they are; or another iterable of batches that can be read more than once.
        batch_size: The number of data in a batch, for data that can be read one by one; 1,000 by default. That of a
            `DataLoader` is its own.
        keys: The names of inputs, targets and, optionally, the identity, for dictionaries; by default the usual ones,
            such as "image" and "label", or "pixel_values" and "labels".

    Example:
        >>> import torch, covary
        >>> batches = covary.as_batches({"image": torch.rand(10, 1, 8, 8), "label": torch.arange(10) % 3}, batch_size=4)
        >>> [len(batch.x) for batch in batches]
        [4, 4, 2]
    """
    size = BATCH_SIZE if batch_size is None else batch_size
    if size < 1:
        raise DataError(f"Expected batch_size of at least 1, got {size}.")
    if isinstance(data, Batches):
        return data if batch_size is None or data.read is None else replace(data, batch_size=size)
    if isinstance(data, tuple) and hasattr(data, "x_train"):  # a covary.data.Dataset
        return _of_arrays(data[:2], size, keys)
    if hasattr(data, "column_names"):
        return _of_table(data, size, keys)
    if isinstance(data, TensorDataset) or _is_arrays(data):
        return _of_arrays(data.tensors if isinstance(data, TensorDataset) else data, size, keys)
    if isinstance(data, DataLoader):
        return _of_loader(data, keys)
    if isinstance(data, Dataset) and hasattr(data, "__len__") and not isinstance(data, IterableDataset):
        return Batches(lambda rows: _collated(data, rows, default_collate, keys), len(data), size)
    if isinstance(data, Iterable) and not isinstance(data, (Iterator, Tensor, np.ndarray, str, Mapping)):
        return Batches(None, 0, size, lambda: _streamed(data, keys))
    raise _unreadable(data)


def outputs_of(network: nn.Module, batch: IndexedBatch, seed: int) -> Tensor:
    """Outputs (N, C, ...) of a network for a batch; the noise of an averaged one is a function of (seed, identity)."""
    if isinstance(network, SampleAveraging):
        return network(batch.x, batch.identity, seed=seed)
    return require_tensor(network(batch.x))


@torch.no_grad()
def outputs_of_first(network: nn.Module, batch: IndexedBatch) -> Tensor:
    """Outputs (1, C, ...) of a network for the first datum of a batch, passed alone.

    Raise `UnsupportedLayerError` if they cannot be computed or are not finite where those of the whole batch are.
    """
    problem: Exception | None = None
    try:
        outputs = outputs_of(network, IndexedBatch(*(part[:1] for part in batch)), 0)
        if not outputs.is_floating_point() or bool(outputs.isfinite().all()):
            return outputs
    except (RuntimeError, ValueError, IndexError) as error:
        problem = error
    together = outputs_of(network, batch, 0)  # where this fails too, its error is the right one
    if problem is None and not bool(together.isfinite().all()):
        return outputs
    found = "NaN or infinity" if problem is None else f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    raise UnsupportedLayerError(
        f"Expected outputs of a datum that depend on this datum alone, but the network cannot compute those of one "
        f"datum without the rest of the batch ({found}). It uses statistics of the batch, as h / h.std(0) does, or "
        "other rows: compute them within each datum, as LayerNorm does, or use constants from the training data."
    ) from problem


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


def _is_arrays(data: object) -> bool:
    """Whether the data are arrays of all data, by position or by name."""
    parts = list(data.values()) if isinstance(data, Mapping) else data
    if not isinstance(parts, tuple | list) or (not isinstance(data, Mapping) and len(parts) not in (2, 3)):
        return False
    arrays = [isinstance(part, Tensor | np.ndarray) for part in parts]
    if isinstance(data, Mapping):
        return any(arrays)
    return (
        isinstance(data, tuple)
        and arrays[0]
        and all(isinstance(part, Tensor | np.ndarray | list | tuple) for part in parts)
    )


def _of_arrays(data: Any, batch_size: int, keys: Keys | None) -> Batches:
    x, y, given = fields_of(data, keys)
    index = torch.arange(len(x), device=x.device) if given is None else given

    def read(rows: Tensor) -> IndexedBatch:
        # a fifth of the time of x[rows], which has the same values
        return _indexed(*(part.index_select(0, rows.to(part.device)) for part in (x, y, index)))

    return Batches(read, len(x), batch_size)


def _of_loader(loader: DataLoader[Any], keys: Keys | None) -> Batches:
    """The batches of a loader as they are; of one that shuffles, those of its data set by position."""
    data: Any = loader.dataset
    sampler, size = loader.sampler, loader.batch_size
    if isinstance(sampler, RandomSampler) and size and not sampler.replacement and sampler.num_samples == len(data):
        return Batches(lambda rows: _collated(data, rows, loader.collate_fn, keys), len(data), size)
    by_position = isinstance(sampler, SequentialSampler) and loader.batch_size is not None
    return Batches(None, 0, size or BATCH_SIZE, lambda: _streamed(loader, keys, by_content=not by_position))


def _of_table(data: Any, batch_size: int, keys: Keys | None) -> Batches:
    """The batches of a Hugging Face data set, with or without a length."""
    if isinstance(data.column_names, Mapping):
        splits = ", ".join(f"'{name}'" for name in data.column_names)
        raise DataError(f"Expected one split of a data set, got {splits}. Pass for example data['train'].")
    if hasattr(data, "__len__"):
        return Batches(lambda rows: _at(data[rows.tolist() or [0]], rows, keys), len(data), batch_size)
    return Batches(None, 0, batch_size, lambda: _streamed(data.iter(batch_size), keys, by_content=True))


def _collated(data: Any, positions: Tensor, collate: Callable[[list[Any]], Any], keys: Keys | None) -> IndexedBatch:
    # a process may have no data of the last batch: its empty shard still needs the shape of a datum
    items = [data[row] for row in positions.tolist() or [0]]
    try:
        batch = collate(items)
    except TypeError:  # pictures, of which torch makes no batch
        first = items[0]
        batch = {name: [item[name] for item in items] for name in first} if isinstance(first, Mapping) else None
        batch = list(map(list, zip(*items, strict=True))) if batch is None else batch
    return _at(batch, positions, keys)


def _at(batch: Any, positions: Tensor, keys: Keys | None) -> IndexedBatch:
    x, y, given = fields_of(batch, keys)
    index = positions.to(x.device) if given is None else given
    return _indexed(*(part[: len(positions)] for part in (x, y, index)))


def _streamed(data: Iterable[Any], keys: Keys | None, by_content: bool = False) -> Iterator[IndexedBatch]:
    seen = 0
    for batch in data:
        x, y, given = fields_of(batch, keys)
        if given is None:
            given = hashed(x) if by_content else torch.arange(seen, seen + len(x), device=x.device)
        yield _indexed(x, y, given)
        seen += len(x)


def _indexed(x: Tensor, y: Tensor, index: Tensor) -> IndexedBatch:
    return IndexedBatch(as_inputs(x), as_targets(y), index)


def _unreadable(data: object) -> DataError:
    return DataError(
        "Expected arrays or tensors (x, y), a data set, or an iterable of batches that can be read more than once, got "
        f"{type(data).__name__}. Wrap a generator in list(...)."
    )


def _checked(batch: IndexedBatch, first: bool) -> IndexedBatch:
    """The batch, if its inputs are finite; of the first one, images that look like bytes are named in one line."""
    x = batch.x
    if not x.is_floating_point() or not x.numel():
        return batch
    low, high = map(float, x.aminmax())  # a fifth of the time of isfinite().all(); nan and inf propagate
    if not math.isfinite(low) or not math.isfinite(high):
        bad = int(batch.identity[(~x.isfinite()).reshape(len(x), -1).any(1)][0])
        raise DataError(f"The inputs of datum {bad} are not finite (NaN or infinity). Fix or remove it.")
    images = x.ndim == 4 and x.shape[1] in (1, 3)
    if first and images and low >= 0 and high > 127 and bool((x == x.round()).all()):
        warn_once(
            "Inputs are whole numbers and some are above 127, like bytes of images: expected about 0 to 1. Divide them "
            "by 255, or pass them as uint8."
        )
    return batch
