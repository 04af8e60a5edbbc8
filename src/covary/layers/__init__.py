"""Which layers does covary bring itself?

So far the scalar scale and bias of Fixup networks. Layers are plain `nn.Module`s that know nothing of curvature; how
they enter it is written in `curvature/rules`.
"""

from .scalar import Bias, Scale

__all__ = ["Bias", "Scale"]
