"""Groups of symmetries and their actions on images, without learnable parameters.

Layout: images (N, C, H, W); S transforms of each, matrices (N, S, 3, 3), give (N, S, C, H, W). Coordinates: x to the
right, y down, origin at the center of the image. A matrix maps output coordinates to input coordinates.
Features over a finite group G are (N, C·|G|, H, W), the element fastest; their frames are defined in `finite.py`.
"""

from .affine import affine_generators, exponential, warp
from .finite import P4, P4M, Group, cyclic, lift, permute_slices, square_group, turn_slices
from .square import act

__all__ = [
    "P4",
    "P4M",
    "Group",
    "act",
    "affine_generators",
    "cyclic",
    "exponential",
    "lift",
    "permute_slices",
    "square_group",
    "turn_slices",
    "warp",
]
