"""A study of two cells that each write their process's number to a folder and sleep: started to be killed."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from covary.reproduce.cells import CellSpec, compute_cells


def sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(120)


if __name__ == "__main__":
    specs = [CellSpec(name, {}, type(None), partial(sleep, sys.argv[1])) for name in "ab"]
    compute_cells(specs, None, lambda name, share: None, 2)
