"""The choice of curvature as one value, and the registry of structures by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from .._text import clipped
from .._types import Probes
from ..errors import StructureError
from ..linalg import AbstractPSD, Block
from ..models import Model
from ..priors import Prior
from .capture import Captured
from .exact import FULL, diagonal_blocks, full_blocks
from .jacobian_factors import LookupFactors
from .kron import kron_blocks
from .kron_moving import moving_blocks
from .kron_traced import traced_blocks
from .rows import KfacApprox, Sharing, called

CurvatureName = Literal["kron", "kron-traced", "kron-shared", "full", "diag", "kernel"]
BlocksFunction = Callable[[Captured, Iterable[Tensor]], Mapping[str, AbstractPSD]]
MIN_PROBED_DATA = 400  # data times probes, below which random probes bias the gradient by more than 1 %
KRON = ("kron", "kron-traced", "kron-shared")
_BLOCKS: dict[str, Callable[..., Mapping[str, AbstractPSD]]] = {
    "kron": kron_blocks,
    "kron-traced": traced_blocks,
    "kron-shared": kron_blocks,
    "full": full_blocks,
    "diag": diagonal_blocks,
}


@dataclass(frozen=True)
class Curvature:
    """Which curvature to compute: its structure, its probes, and the options of KFAC.

    Arguments:
        structure: "kron" (KFAC), "kron-traced" (KFAC with partial traces), "kron-shared" (KFAC with one gradient
            factor for all blocks of a grouped or factored weight, as in paper 2; with "kron" each has its own, which is
            closer to the GGN where channels differ), "full", "diag", or "kernel" (the full curvature by its dual, for
            few data).
        probes: "exact" for all C columns of the root of Λ, or a number of random probes: cheaper, with a
            log-determinant that is too small on average.
        kfac_approx: "expand" or "reduce" over positions and tokens.
        group_approx: "reduce" or "expand" over the elements of a group convolution.
        max_factor_size: The largest side of a Kronecker factor: a weight with more rows or columns (as a matrix)
            gets the exact diagonal of its block instead, which needs no decomposition. None for no limit.

    Example:
        >>> from covary import Curvature
        >>> Curvature("kron", probes=1).probes
        1
    """

    structure: CurvatureName = "kron"
    probes: Probes = "exact"
    kfac_approx: KfacApprox = "expand"
    group_approx: KfacApprox = "reduce"
    max_factor_size: int | None = None

    def __post_init__(self) -> None:
        check_structure(self.structure)
        check_probes(self.probes)
        if {self.kfac_approx, self.group_approx} - set(get_args(KfacApprox)):
            raise StructureError(
                f"kfac_approx and group_approx must be 'expand' or 'reduce', got {self.kfac_approx!r} and "
                f"{self.group_approx!r}."
            )
        if self.max_factor_size is not None and self.max_factor_size < 1:
            raise StructureError(f"max_factor_size must be positive or None, got {self.max_factor_size!r}.")

    def blocks(self, captured: Captured, probes: Iterable[Tensor]) -> Mapping[str, AbstractPSD]:
        """The blocks of a captured pass for these probes."""
        if self.structure not in KRON:
            return _BLOCKS[self.structure](captured, probes)
        captured = self._limited(captured)
        sharing = Sharing(self.kfac_approx, self.group_approx, self.structure == "kron-shared")
        return (moving_blocks if captured.moving else _BLOCKS[self.structure])(captured, probes, sharing)

    def _limited(self, captured: Captured) -> Captured:
        """The captured pass with diagonal blocks for weights whose factors would be too large."""
        if self.max_factor_size is None:
            return captured
        large = [name for name in called(captured, "kron") if largest_factor(captured, name) > self.max_factor_size]
        return replace(captured, structures={**captured.structures, **dict.fromkeys(large, "diagonal")})


def largest_factor(captured: Captured, name: str) -> int:
    """The larger one of the numbers of rows and columns of a weight; those of a table's rows that are a diagonal, 1."""
    weight = captured.weights[name]
    rows, columns = len(weight), weight[0].numel()
    one_hot = isinstance(captured.factors[name][0].factors, LookupFactors) and captured.num_samples == 1
    return columns if one_hot else max(rows, columns)


def as_curvature(curvature: object) -> Curvature:
    """The choice itself, or that of a structure's name with exact probes."""
    if isinstance(curvature, Curvature):
        return curvature
    check_structure(curvature)
    return Curvature(cast(CurvatureName, curvature))


def check_structure(structure: object) -> None:
    """Raise `StructureError` for anything but the name of a structure."""
    if structure not in get_args(CurvatureName):
        names = ", ".join(repr(name) for name in get_args(CurvatureName))
        raise StructureError(f"Expected a curvature out of {names}, got {clipped(structure)}. Choose one of these.")


def check_probes(probes: object) -> None:
    """Raise `StructureError` for anything but "exact" and a positive number."""
    if probes == "exact" or (isinstance(probes, int) and not isinstance(probes, bool) and probes > 0):
        return
    raise StructureError(f"probes must be 'exact' or a positive number of random probes, got {probes!r}.")


def automatic_probes(num_data: int, probes: int = 1) -> Probes:
    r"""The number of random probes if there are enough data for them, else "exact".

    The log-determinant of N data with K random probes each, and its derivative, are biased by about 1 / (N K): with
    400 of these products the derivative by the prior is off by less than 1 % (`docs/explanation/curvature.md`).

    Arguments:
        num_data: The number N of data that the curvature is a sum over, those of all processes together.
    """
    return probes if num_data * probes >= MIN_PROBED_DATA else "exact"


def check_curvature(curvature: Curvature, prior: Prior) -> None:
    """Raise `StructureError` if the structure has no log-determinant with this prior or these probes."""
    name = curvature.structure
    if name in KRON and prior.structure == "diagonal":
        raise StructureError(
            f"A diagonal prior with curvature '{name}' has no closed-form log-determinant. Use "
            f"Prior(structure='layerwise') or 'scalar' with '{name}', or curvature='diag' or 'full' with the "
            "diagonal prior."
        )
    if name in ("full", "kernel") and curvature.probes != "exact":
        raise StructureError(
            f"Curvature '{name}' takes exact probes only: {curvature.probes} random ones would bias its "
            f"log-determinant. Use probes='exact', or {', '.join(map(repr, KRON))} or 'diag' with random probes."
        )


def check_blocks(curvature: Curvature, prior: Prior) -> None:
    """Raise `StructureError` if the curvature has no blocks of weights, or none with this prior or these probes."""
    check_curvature(curvature, prior)
    if curvature.structure == "kernel":
        raise StructureError(
            "Curvature 'kernel' is a matrix over data and has no blocks of weights. Use 'kron', 'kron-traced', "
            "'kron-shared', 'full' or 'diag'; hypergrad.stochastic has the gradient for the kernel of a minibatch."
        )


def joined_shifts(curvature: Block, model: Model) -> dict[str, Tensor]:
    """The prior's precisions, one shift per block of the curvature."""
    shifts = model.prior.shifts()
    if FULL not in curvature.blocks:
        return shifts
    return {FULL: torch.cat([shifts[name].expand(weight.numel()) for name, weight in model.weights.items()])}
