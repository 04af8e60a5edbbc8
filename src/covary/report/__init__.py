"""What do the records show?

A figure is a function from plain numbers to a matplotlib figure; it reads no network and imports no torch, so that it
can be drawn again at any time.
"""

from .benchmarks import scaling_figure

__all__ = ["scaling_figure"]
