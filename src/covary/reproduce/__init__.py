"""The tables and figures of the three papers: one folder per paper, each study beside the figure that draws it.

A study is a function of a `Request` that returns a `Study` record.
"""

from collections.abc import Callable

from ..records import Study
from .paper1.recover import recover
from .paper1.sampling import sampling
from .paper1.table1 import mnist_mlp
from .paper1.toy import toy
from .paper2.cifar_layers import cifar_layers
from .paper2.groups import several_groups
from .paper2.quadrant import quadrant
from .paper2.separable import separable
from .paper3.reparametrization import reparametrization
from .study import Request

__all__ = ["SCALES", "STUDIES", "Request"]

SCALES = ("smoke", "cpu", "paper")
STUDIES: dict[str, Callable[[Request], Study]] = {
    "toy": toy,
    "recover": recover,
    "mnist-mlp": mnist_mlp,
    "sampling": sampling,
    "quadrant": quadrant,
    "cifar-layers": cifar_layers,
    "groups": several_groups,
    "separable": separable,
    "reparametrization": reparametrization,
}
