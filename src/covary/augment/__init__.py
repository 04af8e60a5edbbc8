"""Augmentations: learnable distributions p(x' | x, η) over transforms of a datum.

Layout: data (N, ...), noise (N, S, ...), transformed samples (N, S, ...). Widths are non-negative; noise is a function
of (seed, index) alone.
"""

from .affine import Affine2d, Correlated, Rotation2d
from .automatic import RandAugment, TrivialAugment
from .color import ColorJitter
from .composed import Composed
from .exchange import (
    from_albumentations,
    from_kornia,
    from_torchvision,
    to_albumentations,
    to_kornia,
    to_text,
    to_torchvision,
)
from .export import load, save
from .finite import FiniteGroup, Mirror3d
from .generators import LearnedGenerators
from .limits import bounded
from .outputs import MovedBoxes, MovedMasks, MovedPoints, OutputAction, PermutedOutputs
from .per_class import PerClass
from .pipeline import RandomTransform
from .protocol import Augmentation, OutputWeightedAugmentation, WeightedAugmentation
from .signals import Signal1d
from .space import Points3d, Volume3d

__all__ = [
    "Affine2d",
    "Augmentation",
    "ColorJitter",
    "Composed",
    "Correlated",
    "FiniteGroup",
    "LearnedGenerators",
    "Mirror3d",
    "MovedBoxes",
    "MovedMasks",
    "MovedPoints",
    "OutputAction",
    "OutputWeightedAugmentation",
    "PerClass",
    "PermutedOutputs",
    "Points3d",
    "RandAugment",
    "RandomTransform",
    "Rotation2d",
    "Signal1d",
    "TrivialAugment",
    "Volume3d",
    "WeightedAugmentation",
    "bounded",
    "from_albumentations",
    "from_kornia",
    "from_torchvision",
    "load",
    "save",
    "to_albumentations",
    "to_kornia",
    "to_text",
    "to_torchvision",
]
