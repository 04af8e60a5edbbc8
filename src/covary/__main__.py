"""The command line, as `python -m covary`."""

from .cli import main

if __name__ == "__main__":
    main()
