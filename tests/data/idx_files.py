"""IDX files to read."""

import gzip
import struct
from pathlib import Path

from torch import Tensor


def write_idx(path: Path, values: Tensor) -> None:
    """Write bytes to an IDX file, compressed if its name ends in `.gz`; equal values make equal bytes."""
    header = struct.pack(f">HBB{values.ndim}I", 0, 0x08, values.ndim, *values.shape)
    content = header + values.contiguous().cpu().numpy().tobytes()
    # a time stamp in the gzip header would give equal arrays unequal checksums
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0) if path.suffix == ".gz" else content)
