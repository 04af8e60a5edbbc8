"""Groups: how does a symmetry act, as plain algebra without parameters?

Layout: images (N, C, H, W); S transforms of each, matrices (N, S, 3, 3), give (N, S, C, H, W). Coordinates: x to the
right, y down, origin at the centre of the image. A matrix maps output coordinates to input coordinates.
"""

from .finite import DIHEDRAL_NAMES, FINITE_GROUPS, act, missing_products, product
from .lie import AFFINE_NAMES, affine_generators, exponential
from .resample import PADDINGS, to_normalised, warp, warp_normalised

__all__ = [
    "AFFINE_NAMES",
    "DIHEDRAL_NAMES",
    "FINITE_GROUPS",
    "PADDINGS",
    "act",
    "affine_generators",
    "exponential",
    "missing_products",
    "product",
    "to_normalised",
    "warp",
    "warp_normalised",
]
