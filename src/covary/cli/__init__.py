"""What can be done from the command line? One short function per command: it parses, calls, prints."""

from . import benchmarks, data, discover, geometry, layers, reports, reproduce
from .app import app, main

__all__ = ["app", "benchmarks", "data", "discover", "geometry", "layers", "main", "reports", "reproduce"]
