"""Groups: how does a symmetry act, as plain algebra without parameters?

Layout: images (N, C, H, W); S transforms of each, matrices (N, S, 3, 3), give (N, S, C, H, W). Coordinates: x to the
right, y down, origin at the centre of the image. A matrix maps output coordinates to input coordinates.
"""

from .lie import AFFINE_NAMES, affine_generators, exponential
from .resample import to_normalised, warp, warp_normalised

__all__ = ["AFFINE_NAMES", "affine_generators", "exponential", "to_normalised", "warp", "warp_normalised"]
