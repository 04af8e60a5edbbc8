"""Which layers does covary bring itself, and how strictly does each keep a symmetry?

Features are (N, C, H, W); a group layer's are (N, C·|G|, H, W), the group element fastest. `Conv` and `SparseConv`
commute with every shift, `Dense`, `FactoredDense` and `SparseDense` with none. `Scale` and `Bias` are those of Fixup
networks. Layers are plain `nn.Module`s that know nothing of curvature; how they enter it is written in
`curvature/rules`.
"""

from .dense import Conv, Dense
from .equivariant_start import initialize_equivariant
from .factored import FactoredDense
from .group import GroupConv, GroupPool
from .pool import PolyphasePool
from .relaxed import FixedFrame, Relaxed
from .scalar import Bias, Scale
from .sparse import SparseConv, SparseDense
from .stationary import GlobalSum, stationary

__all__ = [
    "Bias",
    "Conv",
    "Dense",
    "FactoredDense",
    "FixedFrame",
    "GlobalSum",
    "GroupConv",
    "GroupPool",
    "PolyphasePool",
    "Relaxed",
    "Scale",
    "SparseConv",
    "SparseDense",
    "initialize_equivariant",
    "stationary",
]
