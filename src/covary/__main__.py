"""The command line, as `python -m covary`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which `-m` puts first: its files must not replace modules that follow

from .cli import main

if __name__ == "__main__":
    main()
