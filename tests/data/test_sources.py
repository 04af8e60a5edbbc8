import gzip
import hashlib
import lzma

import pytest

from covary.data import verify
from covary.data.sources import NAMES, SOURCES, content_sum
from covary.errors import DataError


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_sums_are_of_the_content(tmp_path, pack):
    content = bytes(range(256)) * 10_000  # more than a chunk
    (tmp_path / "file").write_bytes(pack(content))
    assert content_sum(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_the_embedded_set_verifies():
    checks = verify("mnist-mini")
    assert len(checks) == 4
    assert all(check.verified and check.problem is None for check in checks)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_published_sets_verify(data_dir, name):
    assert [check.verified for check in verify(name, data_dir)] == [True] * 4


def test_published_downloads_have_their_sums(data_dir):
    for name in ("mnist", "fashion-mnist"):
        for download in SOURCES[name].downloads:
            packed = (data_dir / name / download.address.rpartition("/")[2]).read_bytes()
            assert hashlib.sha256(packed).hexdigest() == download.sha256


def test_a_file_that_differs_is_named(places):
    folder = places["given"] / "cifar-10"
    folder.mkdir()
    for file in ("data_batch_1.bin", "data_batch_3.bin.xz", "test_batch.bin"):
        (folder / file).write_bytes(lzma.compress(b"x") if file.endswith("xz") else b"x")
    checks = verify("cifar-10", places["given"])
    assert [check.path for check in checks] == [
        str(folder / file) for file in ("data_batch_1.bin", "data_batch_3.bin.xz", "test_batch.bin")
    ]
    found = hashlib.sha256(b"x").hexdigest()
    for check, file in zip(checks, ("data_batch_1.bin", "data_batch_3.bin", "test_batch.bin"), strict=True):
        assert not check.verified
        assert f"SHA-256 {SOURCES['cifar-10'].sums[file]}, got {found}" in check.problem


def test_a_set_that_is_not_there_or_unknown():
    with pytest.raises(DataError, match="'mnist' was not found"):
        verify("mnist")
    with pytest.raises(DataError, match="Expected a data set among .*got 'mnits'"):
        verify("mnits")


def test_every_row_of_the_table_is_complete():
    for name in NAMES:
        source = SOURCES[name]
        sums = [*filter(None, source.sums.values()), *(download.sha256 for download in source.downloads)]
        assert all(len(text) == 64 and int(text, 16) for text in sums)
        assert len(set(sums)) == len(sums)
        assert (source.embedded is None) == bool(source.folders)
        assert bool(source.downloads) == (source.embedded is None and None not in source.sums.values())
        assert len(source.class_names) == (100 if name == "cifar-100" else 10)
        assert set(source.optional) <= source.sums.keys()
