"""Layers with different degrees of symmetry, and their relaxed sums.

Features are (N, C, H, W); those of a group layer (N, C·|G|, H, W), the group element fastest. `Conv` and `SparseConv`
commute with every shift, `Dense`, `FactoredDense` and `SparseDense` with none. `Scale` and `Bias` are those of Fixup
networks, `FrozenBatchNorm` has fixed statistics. Their curvature is in `curvature/rules`.
"""

from .dense import Conv, Dense
from .factored import FactoredDense
from .group import GroupConv, GroupPool
from .normalization import Bias, FrozenBatchNorm, Scale
from .pool import PolyphasePool
from .relaxed import FixedFrame, Relaxed, initialize_equivariant
from .sparse import SparseConv, SparseDense

__all__ = [
    "Bias",
    "Conv",
    "Dense",
    "FactoredDense",
    "FixedFrame",
    "FrozenBatchNorm",
    "GroupConv",
    "GroupPool",
    "PolyphasePool",
    "Relaxed",
    "Scale",
    "SparseConv",
    "SparseDense",
    "initialize_equivariant",
]
