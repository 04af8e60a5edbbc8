import gzip
import lzma

import pytest

from covary.data.binary import read_decompressed
from covary.errors import DataError

CONTENT = b"some bytes, " * 100


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_packing_is_recognized_by_content(tmp_path, pack):
    (tmp_path / "file").write_bytes(pack(CONTENT))
    assert read_decompressed(tmp_path / "file") == CONTENT
    assert read_decompressed(tmp_path / "file", 5) == CONTENT[:5]


def test_empty_file_is_empty(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert read_decompressed(tmp_path / "file") == b""


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, "gz"), (lzma.compress, "xz")])
def test_truncated_and_altered_packings_are_named(tmp_path, pack, ending):
    path, packed = tmp_path / f"file.{ending}", pack(CONTENT)
    middle = len(packed) // 2
    for damaged in (packed[:-6], packed[:middle] + bytes([packed[middle] ^ 255]) + packed[middle + 1 :]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"file.{ending} is a damaged (gzip|xz) file"):
            read_decompressed(path)
