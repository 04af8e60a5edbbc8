"""Augmentations: which transforms p(x' | x, η) of a datum should the network ignore, and how far?

Layout: data (N, ...), noise (N, S, ...), transformed copies (N, S, ...). Widths are non-negative; noise is a function
of (seed, index) and of nothing else.
"""

from .affine import Affine2d
from .protocol import Augmentation
from .rotation import Rotation2d

__all__ = ["Affine2d", "Augmentation", "Rotation2d"]
