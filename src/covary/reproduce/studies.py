"""Studies by name."""

from collections.abc import Callable
from pathlib import Path

from .._types import Progress
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

SCALES = ("smoke", "cpu", "paper")
# (scale, seed, data directory, progress, folder of finished cells) -> Study; short ones keep no cells.
STUDIES: dict[str, Callable[[str, int, Path | None, Progress, Path | None], Study]] = {
    "toy": lambda scale, seed, data_dir, progress, folder: toy(scale, seed, progress),
    "recover": recover,
    "mnist-mlp": mnist_mlp,
    "sampling": lambda scale, seed, data_dir, progress, folder: sampling(scale, seed, progress),
    "quadrant": quadrant,
    "cifar-layers": cifar_layers,
    "groups": several_groups,
    "separable": separable,
    "reparametrization": reparametrization,
}
