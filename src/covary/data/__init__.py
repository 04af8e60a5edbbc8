"""Data sets of images: by name, or from an archive, a folder or a function.

A `Dataset` has images of shape (N, C, H, W), float32, in [0, 1] if they are read from bytes, and labels of shape (N,),
int64.
"""

from .dataset import Augmented, Dataset, limited
from .download import fetch
from .sets import listing, load
from .sources import verify
from .transforms import channel_moments, flips_and_shifts, in_quadrants, resized, symmetrize, true_widths
from .unlabeled import load_images

__all__ = [
    "Augmented",
    "Dataset",
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
