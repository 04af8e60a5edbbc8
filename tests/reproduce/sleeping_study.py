"""A study of two cells that each leave their process's number in a folder and sleep: started to be killed."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from covary.reproduce.cells import Piece, made


def sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(120)


if __name__ == "__main__":
    pieces = [Piece(name, {}, type(None), partial(sleep, sys.argv[1])) for name in "ab"]
    made(pieces, None, lambda name, share: None, 2)
