"""The command line: one short function per command, which parses, calls and prints.

A command's module is imported when the command is run or completed, and what the command computes with when its
function is called, so that `covary --help`, `covary COMMAND --help` and shell completion are fast.
"""

from .app import main

__all__ = ["main"]
