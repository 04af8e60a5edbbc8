"""Groups: how does a symmetry act, as plain algebra without parameters?

Layout: images (N, C, H, W); S transforms of each, matrices (N, S, 3, 3), give (N, S, C, H, W). Coordinates: x to the
right, y down, origin at the center of the image. A matrix maps output coordinates to input coordinates.
Features over a finite group G are (N, C·|G|, H, W), the element fastest; their frames are defined in `tables.py`.
"""

from .finite import DIHEDRAL_NAMES, FINITE_GROUPS, act, element_matrix, missing_products, product
from .lie import AFFINE_NAMES, affine_generators, exponential
from .resample import PADDINGS, to_normalized, warp, warp_normalized
from .tables import (
    P4,
    P4M,
    Group,
    align,
    alike,
    cyclic,
    lift,
    permute_slices,
    square_group,
    turn_slices,
    turns_shifts,
)

__all__ = [
    "AFFINE_NAMES",
    "DIHEDRAL_NAMES",
    "FINITE_GROUPS",
    "P4",
    "P4M",
    "PADDINGS",
    "Group",
    "act",
    "affine_generators",
    "align",
    "alike",
    "cyclic",
    "element_matrix",
    "exponential",
    "lift",
    "missing_products",
    "permute_slices",
    "product",
    "square_group",
    "to_normalized",
    "turn_slices",
    "turns_shifts",
    "warp",
    "warp_normalized",
]
