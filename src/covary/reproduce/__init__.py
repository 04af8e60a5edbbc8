"""The tables and figures of the three papers: one folder per paper, each study beside the figure that draws it.

A study is a function of a `Request` that returns a `Study` record; its `Entry` says which options and scales it has.
"""

from .paper1.correlated import correlated
from .paper1.figure5 import figure5
from .paper1.recover import recover
from .paper1.sampling import sampling
from .paper1.table1 import table1, table2
from .paper1.toy import toy
from .paper2.cifar_layers import cifar_layers
from .paper2.groups import several_groups
from .paper2.quadrant import quadrant
from .paper2.separable import separable
from .paper3.reparametrization import reparametrization
from .paper3.sharpness import sharpness
from .study import Entry, Options, Request

__all__ = ["SCALES", "STUDIES", "Entry", "Options", "Request"]

SCALES = ("smoke", "cpu", "full", "paper")
_SEEDS = ("num_train", "num_seeds", "processes")
_ROWS = ("num_train", "num_seeds", "versions", "processes")
_TRAINING = ("epochs", "num_samples", "methods")
STUDIES: dict[str, Entry] = {
    "toy": Entry(toy),
    "recover": Entry(recover, ("num_train", "versions")),
    "table1": Entry(table1, ("data", "network", *_ROWS, *_TRAINING), SCALES),
    "table2": Entry(table2, (*_SEEDS, *_TRAINING), SCALES),
    "figure5": Entry(figure5, ("data", "network", *_ROWS)),
    "correlated": Entry(correlated, ("data", "network", *_SEEDS), SCALES),
    "sampling": Entry(sampling),
    "quadrant": Entry(quadrant, _SEEDS),
    "cifar-layers": Entry(cifar_layers, _SEEDS, SCALES),
    "groups": Entry(several_groups, _SEEDS, SCALES),
    "separable": Entry(separable),
    "reparametrization": Entry(reparametrization),
    "sharpness": Entry(sharpness, ("data", *_SEEDS), SCALES),
}
