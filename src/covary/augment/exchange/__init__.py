"""Ranges of augmentations to and from the pipelines of other libraries, none of which is imported."""

from .text import to_text

__all__ = ["to_text"]
