"""The command line, as `python -m covary`."""

import contextlib
import os
import sys

if __name__ == "__main__":
    with contextlib.suppress(FileNotFoundError):  # a working directory that was removed has no files
        if sys.path[:1] in ([""], [os.getcwd()]):
            # the working directory, which `-m` puts first: its files must not replace modules that follow
            del sys.path[0]

from .cli import main

if __name__ == "__main__":
    main()
