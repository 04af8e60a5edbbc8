"""Studies by name."""

from collections.abc import Callable
from pathlib import Path

from .._types import Progress
from ..records import Study
from .cifar_layers import cifar_layers
from .quadrant import quadrant
from .recover import recover
from .reparametrization import reparametrization
from .sampling import sampling
from .separable import separable
from .several_groups import several_groups
from .table import mnist_mlp
from .toy import toy

__all__ = ["SCALES", "STUDIES"]

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
