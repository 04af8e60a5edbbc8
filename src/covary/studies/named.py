"""Studies by name."""

from collections.abc import Callable
from pathlib import Path

from .._types import Progress
from ..records import Study
from .recover import recover
from .sampling import sampling
from .table import mnist_mlp
from .toy import toy

__all__ = ["SCALES", "STUDIES"]

SCALES = ("smoke", "cpu", "paper")
STUDIES: dict[str, Callable[[str, int, Path | None, Progress], Study]] = {
    "toy": lambda scale, seed, data_dir, progress: toy(scale, seed, progress),
    "recover": recover,
    "mnist-mlp": mnist_mlp,
    "sampling": lambda scale, seed, data_dir, progress: sampling(scale, seed, progress),
}
