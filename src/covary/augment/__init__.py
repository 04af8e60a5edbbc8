"""Augmentations: learnable distributions p(x' | x, η) over transforms of a datum.

Layout: data (N, ...), noise (N, S, ...), transformed samples (N, S, ...). Widths are non-negative; noise is a function
of (seed, index) alone.
"""

from .affine import Affine2d, Correlated, Rotation2d
from .composed import Composed
from .export import load, save
from .finite import FiniteGroup
from .pipeline import RandomTransform
from .protocol import Augmentation, WeightedAugmentation

__all__ = [
    "Affine2d",
    "Augmentation",
    "Composed",
    "Correlated",
    "FiniteGroup",
    "RandomTransform",
    "Rotation2d",
    "WeightedAugmentation",
    "load",
    "save",
]
