"""Where do examples come from?

A `Dataset` holds images of shape (N, C, H, W), float32 in [0, 1], and labels of shape (N,), int64.
"""

from .idx import idx_shape, read_idx, write_idx
from .places import cache_dir
from .sets import NAMES, Dataset, Listing, listing, load

__all__ = ["NAMES", "Dataset", "Listing", "cache_dir", "idx_shape", "listing", "load", "read_idx", "write_idx"]
