r"""Sums of paths that keep a symmetry to different degrees: which of them is used, their priors decide.

With a precision of its own for every tensor of every path, a path whose precisions grow without bound goes away; what
is left keeps the symmetry that all remaining paths keep (paper 2, Eq. (4), (8) and App. B).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from ..groups import Group, turn_slices
from ..groups.finite import alike, turns_shifts
from .dense import Conv, check_rank
from .group import GroupConv
from .pool import PolyphasePool
from .sparse import SparseConv


@runtime_checkable
class Path(Protocol):
    """A layer that can be one of several: its output can be rescaled, so that the sum keeps its variance.

    One whose outputs have the size of the pooled grid, whatever that of its inputs, says so by a class attribute
    `onto_pooled_grid = True`.
    """

    def rescale_(self, factor: float) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        ...


class Relaxed(nn.Module):
    r"""The plain sum of paths, :math:`y = \operatorname{pool}(\sum_i f_i(x)) + \sum_j d_j(x)`.

    The :math:`f_i` are convolution-like, at the resolution of the input; they are summed, then pooled, so that they
    share one phase. The :math:`d_j` map straight onto the pooled grid: the dense ones (`Dense`, `FactoredDense`,
    `SparseDense`, and `GlobalSum`, which a sparse one may become), and any with `onto_pooled_grid = True`. On
    construction, each of k paths is scaled by :math:`k^{-1/2}`: paths are drawn independently, so the variance of
    their sum is then the mean of theirs.

    A path is off when all of its tensors are zero, biases included. The parameters of path "conv" are named
    `paths.conv.weight` and so on, in the order of the mapping. The group that the features are over, and whether the
    inputs are plain images that a path lifts, are `group` and `lifts`: the layer is still over that group when the
    paths that know it have been taken out.

    Arguments:
        paths: The paths by name; a name has no dots, and is no attribute of `nn.ModuleDict`. They are changed in place
            by their `rescale_`.
        pool: What follows the sum of the convolution-like paths, such as `PolyphasePool(2)`; nothing by default. A
            `PolyphasePool` is over the group of the paths; without a group only where that leaves shifts as they are.
    """

    def __init__(self, paths: Mapping[str, nn.Module], pool: nn.Module | None = None) -> None:
        super().__init__()
        if not paths:
            raise StructureError("A relaxed layer is a sum of paths; none came. Pass {'conv': Conv(...)}.")
        _check_names(paths)
        _check_pool(paths, pool)
        for path in _rescalable(paths):
            path.rescale_(1 / math.sqrt(len(paths)))
        self.paths, self.pool = nn.ModuleDict(paths), pool
        self.group, self.lifts = _group_of(paths.values(), pool)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """The sum, (N, C', H', W')."""
        dense = [name for name, path in self.paths.items() if getattr(path, "onto_pooled_grid", False)]
        total = self._add([name for name in self.paths if name not in dense], input, None)
        if total is not None and self.pool is not None:
            total = self.pool(total)
        total = self._add(dense, input, total)
        assert total is not None, "there is at least one path"
        return total

    def _add(self, names: Sequence[str], input: Tensor, total: Tensor | None) -> Tensor | None:
        """What was summed before and the outputs of these paths."""
        for name in names:
            output: Tensor = self.paths[name](input)
            if total is not None and output.shape != total.shape:
                raise ShapeError(
                    f"Path '{name}' gives features of shape {tuple(output.shape)}; those before it sum to "
                    f"{tuple(total.shape)}. Paths must agree: convolution-like ones before the pool, dense ones with "
                    "what comes out of it."
                )
            total = output if total is None else total + output
        return total


class FixedFrame(nn.Module):
    r"""A plain convolution of features over a group, (N, C·|G|, H, W) -> (N, C'·|G|, H, W), in the fixed frame.

    Slices are turned from :math:`x'_h` to :math:`h x'_h`, convolved as C·|G| channels like any others, and turned
    back. There all slices shift alike, so that a convolution which mixes them commutes with shifts; in the turned
    frame it would not. With the group it commutes in neither.

    Arguments:
        conv: The convolution, of C·|G| channels into C'·|G|.
        group: The group.
    """

    def __init__(self, conv: Conv | SparseConv, group: Group) -> None:
        super().__init__()
        self.conv, self.group = conv, group

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """The output features, in the turned frame."""
        check_rank(input, "FixedFrame")
        if input.shape[1] % self.group.size:
            raise ShapeError(
                f"FixedFrame over {self.group} expects a multiple of {self.group.size} channels; {tuple(input.shape)} "
                "came. Lift images first, by covary.groups.lift."
            )
        output: Tensor = self.conv(turn_slices(input, self.group, range(self.group.size)))
        return turn_slices(output, self.group, self.group.inverses)

    def rescale_(self, factor: float) -> None:
        """Nothing; the layer's output is multiplied by `factor` from here on."""
        self.conv.rescale_(factor)


def _group_of(paths: Iterable[nn.Module], pool: nn.Module | None) -> tuple[Group | None, bool]:
    """The group that a layer's outputs are over, and whether its inputs are plain images that it lifts."""
    over = [path for path in paths if isinstance(path, GroupConv | FixedFrame)]
    if not over:
        return pool.group if isinstance(pool, PolyphasePool) else None, False
    return over[0].group, any(isinstance(path, GroupConv) and path.lift for path in over)


def _check_names(paths: Mapping[str, nn.Module]) -> None:
    for name in paths:
        if not name or "." in name or hasattr(nn.ModuleDict(), name):
            raise StructureError(
                f"A path cannot be called '{name}': expected a name without dots that nn.ModuleDict has no use for, "
                "such as 'conv'."
            )


def _check_pool(paths: Mapping[str, nn.Module], pool: nn.Module | None) -> None:
    """Nothing, or an error for a pool that would choose another grid of the image in each slice of a path."""
    if not isinstance(pool, PolyphasePool):
        return
    for name, path in paths.items():
        if isinstance(path, GroupConv | FixedFrame) and not _fits(pool.group, path.group):
            raise StructureError(
                f"Path '{name}' is over {path.group}, so that its pool must be over that group too, for the sum to "
                f"commute with shifts; one over {pool.group or 'no group'} came. Pass "
                f"PolyphasePool({pool.stride}, group) with the group of the path."
            )


def _fits(pooled: Group | None, group: Group) -> bool:
    return alike(pooled, group) if pooled is not None else not turns_shifts(group)


def _rescalable(paths: Mapping[str, nn.Module]) -> list[Path]:
    """The paths, or the first that cannot be rescaled."""
    for name, path in paths.items():
        if not isinstance(path, Path):
            raise StructureError(
                f"Path '{name}' ({type(path).__name__}) has no method rescale_(factor), by which a sum of paths "
                "keeps its variance. Take a layer of covary.layers, or give yours one."
            )
    return [path for path in paths.values() if isinstance(path, Path)]
