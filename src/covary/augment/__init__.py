"""Augmentations: which transforms p(x' | x, η) of a datum should the network ignore, and how far?

Layout: data (N, ...), noise (N, S, ...), transformed copies (N, S, ...). Widths are non-negative; noise is a function
of (seed, index) and of nothing else.
"""

from .affine import Affine2d
from .composed import Composed
from .correlated import Correlated
from .export import from_json, load, save, to_json
from .finite import FiniteGroup
from .pipeline import RandomTransform
from .protocol import Augmentation, WeightedAugmentation
from .rotation import Rotation2d

__all__ = [
    "Affine2d",
    "Augmentation",
    "Composed",
    "Correlated",
    "FiniteGroup",
    "RandomTransform",
    "Rotation2d",
    "WeightedAugmentation",
    "from_json",
    "load",
    "save",
    "to_json",
]
