"""The tables and figures of the three papers: one folder per paper, each study beside the figure that draws it.

A study is a function of (scale, seed, data directory, progress, folder) to a `Study` record.
"""

from .studies import SCALES, STUDIES

__all__ = ["SCALES", "STUDIES"]
