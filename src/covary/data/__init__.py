"""Where do examples come from?

A `Dataset` holds images of shape (N, C, H, W), float32, in [0, 1] where they come from bytes, and labels of shape
(N,), int64. A source without a test part gives 0 test rows.
"""

from .checksums import FileCheck, verify
from .dataset import Dataset, limited
from .download import fetch
from .idx import idx_shape, read_idx, write_idx
from .jitter import flips_and_shifts
from .places import cache_dir
from .quadrants import TASKS, in_quadrants
from .resize import channel_moments, resized
from .sets import Listing, listing, load
from .sources import NAMES
from .symmetrize import symmetrize, true_widths

__all__ = [
    "NAMES",
    "TASKS",
    "Dataset",
    "FileCheck",
    "Listing",
    "cache_dir",
    "channel_moments",
    "fetch",
    "flips_and_shifts",
    "idx_shape",
    "in_quadrants",
    "limited",
    "listing",
    "load",
    "read_idx",
    "resized",
    "symmetrize",
    "true_widths",
    "verify",
    "write_idx",
]
