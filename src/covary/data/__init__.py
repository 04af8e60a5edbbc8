"""Data sets: by name, or from an archive, a folder, a table or a function.

A `Dataset` has images of shape (N, C, H, W), float32, in [0, 1] if they are read from bytes, and labels of shape (N,),
int64. `Reading` says what else arrays may be: signals, points, volumes, tables, and real targets.
"""

from .dataset import Augmented, Dataset, limited
from .download import fetch
from .layouts import Reading
from .sets import listing, load, load_images
from .sources import verify
from .transforms import channel_moments, flips_and_shifts, in_quadrants, resized, symmetrize, true_widths

__all__ = [
    "Augmented",
    "Dataset",
    "Reading",
    "channel_moments",
    "fetch",
    "flips_and_shifts",
    "in_quadrants",
    "limited",
    "listing",
    "load",
    "load_images",
    "resized",
    "symmetrize",
    "true_widths",
    "verify",
]
