import gzip
import lzma
import os
import struct
import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covary.data.binary import idx_shape, read_idx
from covary.errors import DataError
from data.idx_files import write_idx

HEADER = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3])
VALID = HEADER + bytes(range(6))


@pytest.mark.parametrize("name", ["values-idx2-ubyte", "values-idx2-ubyte.gz"])
def test_written_values_are_read_back(tmp_path, name):
    values = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / name, values)
    assert torch.equal(read_idx(tmp_path / name, 3), values)
    assert idx_shape(tmp_path / name, 3) == (2, 3, 4)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_round_trip_of_any_shape(tmp_path_factory, shape, seed):
    path = tmp_path_factory.mktemp("idx") / "values.gz"
    values = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    write_idx(path, values)
    assert torch.equal(read_idx(path, len(shape)), values)


def test_bytes_are_those_of_the_format(tmp_path):
    write_idx(tmp_path / "values", torch.arange(6, dtype=torch.uint8).reshape(2, 3))
    assert (tmp_path / "values").read_bytes() == VALID


def test_same_values_give_the_same_packed_bytes(tmp_path):
    values = torch.arange(6, dtype=torch.uint8)
    for name in ("a.gz", "b.gz"):
        write_idx(tmp_path / name, values)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_strided_values_are_written_in_row_major_order(tmp_path):
    values = torch.arange(6, dtype=torch.uint8).reshape(2, 3).T
    write_idx(tmp_path / "values", values)
    assert torch.equal(read_idx(tmp_path / "values", 2), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least 4 bytes, found 0"),
        (VALID[:3], "at least 4 bytes, found 3"),
        (b"\x01" + VALID[1:], "two zero bytes first, found 01 00"),
        (VALID[:2] + b"\x0d" + VALID[3:], "IDX type 0x0d: expected unsigned bytes, 0x08"),
        (VALID[:3] + b"\x03" + VALID[4:], "3 dimensions: expected 2"),
        (VALID[:9], "is truncated: expected 2 sizes"),
        (VALID[:-1], r"is truncated: sizes \(2, 3\) need 6 bytes of values, found 5"),
        (VALID + b"\x00", r"has trailing bytes: sizes \(2, 3\) need 6 bytes of values, found more than 6"),
        (struct.pack(">HBB2I", 0, 8, 2, 0, 3), r"is empty: its sizes are \(0, 3\)"),
        (struct.pack(">HBB2I", 0, 8, 2, 2**32 - 1, 2**32 - 1), "GiB of memory"),  # must not be allocated first
        (gzip.compress(VALID, mtime=0)[:-9], "is a damaged gzip file"),
        (gzip.compress(VALID, mtime=0)[:-5] + b"\xff" * 5, "is a damaged gzip file"),
        (gzip.compress(VALID, mtime=0)[:10] + b"\xff" * 20, "is a damaged gzip file"),
        (gzip.compress(VALID[:-1], mtime=0), "is truncated"),
    ],
)
def test_damage_is_named_in_one_line(tmp_path, content, message):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path, 2)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_idx, idx_shape])
def test_unreadable_path_is_a_data_error(tmp_path, read):
    with pytest.raises(DataError, match="absent cannot be read: No such file"):
        read(tmp_path / "absent", 1)
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path, 1)


@pytest.mark.parametrize("ending", [".gz", ".xz"])
@pytest.mark.parametrize(("rows", "message"), [(2, "found more than 6"), (2**31, "GiB of memory")])
def test_a_small_file_is_not_unpacked_beyond_the_size_that_it_states(tmp_path, monkeypatch, ending, rows, message):
    """The sizes in its header are read first: these files unpack to 64 MiB."""
    content = struct.pack(">HBB2I", 0, 8, 2, rows, 3) + bytes(64 << 20)
    path = tmp_path / f"bomb{ending}"
    path.write_bytes(gzip.compress(content, 1) if ending == ".gz" else lzma.compress(content, preset=0))
    monkeypatch.setattr("covary.data.dataset._physical_memory", lambda: 4 << 30)
    tracemalloc.start()
    with pytest.raises(DataError, match=message):
        read_idx(path, 2)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 4 << 20


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_idx, idx_shape):
        with pytest.raises(DataError, match="pipe cannot be read: it is not a regular file"):
            read(tmp_path / "pipe", 2)
