"""One question, one record: what `covary discover` and `covary reproduce` do.

`discover` learns the symmetries of a data set. Every other study asks whether a table or figure of the papers can be
made again: a function of (scale, seed, data directory, progress) to a `Study`.
"""

from .augmentations import NAMES as AUGMENTATIONS
from .discovery import discover
from .geometry import saved_geometry
from .invariance import prepared
from .named import SCALES, STUDIES
from .needs import Plan, plan

__all__ = ["AUGMENTATIONS", "SCALES", "STUDIES", "Plan", "discover", "plan", "prepared", "saved_geometry"]
