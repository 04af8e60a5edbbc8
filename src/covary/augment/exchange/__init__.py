"""Ranges of augmentations to and from the pipelines of other libraries, none of which is imported."""

from .albumentations import from_albumentations, to_albumentations
from .kornia import from_kornia, to_kornia
from .text import to_text
from .torchvision import from_torchvision, to_torchvision

__all__ = [
    "from_albumentations",
    "from_kornia",
    "from_torchvision",
    "to_albumentations",
    "to_kornia",
    "to_text",
    "to_torchvision",
]
