r"""Sums of paths that are equivariant to different degrees; their prior precisions determine which are used.

Every tensor of every path has its own precision. A path whose precisions grow without bound vanishes, and the sum has
the symmetry of the remaining paths (paper 2, Eq. (4), (8) and App. B).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from glob import escape
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from ..groups import Group, turn_slices
from ..groups.finite import alike, turns_shifts
from .dense import Conv, check_slices
from .group import GroupConv
from .pool import PolyphasePool
from .sparse import AbstractSparse, SparseConv


@runtime_checkable
class Path(Protocol):
    """A layer that can be one of several: its output can be rescaled, so that the sum keeps its variance.

    A class attribute `added_after_pool = True` says that its output has the size of the pooled features.
    """

    def rescale_(self, factor: float) -> None:
        """Multiply the layer's output by `factor`, in place."""
        ...


class Relaxed(nn.Module):
    r"""Sum of paths, :math:`y = \operatorname{pool}(\sum_i f_i(x)) + \sum_j d_j(x)`.

    The :math:`f_i` are convolution-like, at the resolution of the input; they are summed, then pooled, so that they
    share one phase. The :math:`d_j` are added after the pool: the dense ones (`Dense`, `FactoredDense`, `SparseDense`),
    and any with a class attribute `added_after_pool = True`. On construction, each of k paths is scaled by
    :math:`k^{-1/2}`: they are independent, so the variance of their sum is then the mean of theirs.

    A path is inactive when all of its tensors are zero, biases included. The parameters of path "conv" are named
    `paths.conv.weight` and so on, in the order of the mapping. By convention the last path is the most equivariant one.
    `group` and `lifts` are the group of the features, and whether the inputs are plain images that a path lifts; they
    do not change when paths are pruned.

    Arguments:
        paths: The paths by name, without dots, and not an attribute of `nn.ModuleDict`. They are rescaled in place.
            Those over a group are over the same one, with its elements in the same order.
        pool: The pool after the sum of the convolution-like paths, such as `PolyphasePool(2)`; by default none. A
            `PolyphasePool` must be over the group of the paths.

    Example:
        >>> import torch
        >>> from covary.layers import Conv, Dense, PolyphasePool, Relaxed
        >>> layer = Relaxed({"fc": Dense((1, 8, 8), (4, 4, 4)), "conv": Conv(1, 4)}, PolyphasePool(2))
        >>> layer(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 4, 4, 4])
    """

    def __init__(self, paths: Mapping[str, nn.Module], pool: nn.Module | None = None) -> None:
        super().__init__()
        if not paths:
            raise StructureError("Expected one or more paths, got none. Pass for example {'conv': Conv(...)}.")
        for name in paths:
            if not name or "." in name or hasattr(nn.ModuleDict(), name):
                raise StructureError(
                    f"Expected a path name without dots that is not an attribute of nn.ModuleDict, such as 'conv', got "
                    f"'{name}'."
                )
        _check_groups(paths)
        _check_pool(paths, pool)
        for path in _rescalable(paths):
            path.rescale_(1 / math.sqrt(len(paths)))
        self.paths, self.pool = nn.ModuleDict(paths), pool
        self.group, self.lifts = _group_of(paths.values(), pool)

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Sum of the paths, (N, C', H', W')."""
        dense = [name for name, path in self.paths.items() if getattr(path, "added_after_pool", False)]
        total = self._add([name for name in self.paths if name not in dense], input, None)
        if total is not None and self.pool is not None:
            total = self.pool(total)
        total = self._add(dense, input, total)
        assert total is not None, "there is at least one path"
        return total

    def _add(self, names: Sequence[str], input: Tensor, total: Tensor | None) -> Tensor | None:
        """Add the outputs of these paths to a sum."""
        for name in names:
            output: Tensor = self.paths[name](input)
            if total is not None and output.shape != total.shape:
                raise ShapeError(
                    f"Expected features of shape {tuple(total.shape)} from path '{name}', as from the paths before "
                    f"it, got {tuple(output.shape)}. Dense paths must have the shape after the pool."
                )
            total = output if total is None else total + output
        return total


class FixedFrame(nn.Module):
    r"""Plain convolution of features over a group, (N, C·|G|, H, W) -> (N, C'·|G|, H, W), in the fixed frame.

    Slices are turned from :math:`x'_h` to :math:`h x'_h`, convolved as C·|G| plain channels, and turned back. In this
    frame all slices shift alike, so that a convolution which mixes them commutes with shifts; in the turned frame it
    would not. It commutes with the group in neither.

    Arguments:
        conv: The convolution, of C·|G| channels into C'·|G|.
        group: The group.

    Example:
        >>> import torch
        >>> from covary.groups import P4
        >>> from covary.layers import Conv, FixedFrame
        >>> FixedFrame(Conv(4, 8), P4)(torch.rand(2, 4, 6, 6)).shape
        torch.Size([2, 8, 6, 6])
    """

    def __init__(self, conv: Conv | SparseConv, group: Group) -> None:
        super().__init__()
        self.conv, self.group = conv, group

    def forward(self, input: Float[Tensor, "N _ _ _"]) -> Float[Tensor, "N _ _ _"]:
        """Output features, in the turned frame."""
        check_slices(input, self.group, "FixedFrame", "Lift images first, by covary.groups.lift.")
        output: Tensor = self.conv(turn_slices(input, self.group, range(self.group.size)))
        return turn_slices(output, self.group, self.group.inverses)

    def rescale_(self, factor: float) -> None:
        """Multiply the layer's output by `factor`, in place."""
        self.conv.rescale_(factor)


def initialize_equivariant(network: nn.Module, relaxation: float) -> dict[str, float]:
    r"""Scale relaxed layers to start as their equivariant paths; return initial precisions for a `Prior`, by patterns.

    The network is changed in place, so call this once. Leave out the patterns of weights that are hyperparameters.

    The last path of a layer, the most equivariant one, is scaled by :math:`k^{1/2}`, the inverse of the factor of
    `Relaxed` for k paths, so that alone it keeps the variance of its inputs. A tensor of any other path with root mean
    square s gets the precision :math:`(c s)^{-2}`, c = `relaxation`; one that is zero, such as a bias, the largest
    precision of its path. Frozen tensors, and the anchors and inverse length of a sparse basis, have none. `fit` scales
    the weights themselves if its learning rates are prior-scaled.

    If all paths start with equal scale, an unconstrained path memorizes the training data before the equivariant one
    has learned, and the evidence, which is local to a mode, keeps it. If the layer starts as its equivariant path, with
    δ far above the curvature H of a tensor and θ at its mode g/δ, :math:`2\, d \log Z / d \log \delta =
    (\operatorname{tr} H - \|g\|^2) / \delta`: a tensor grows if the gradient g of the log-likelihood exceeds its noise.

    Arguments:
        network: A network with relaxed layers; those of a single path are not changed.
        relaxation: The scale c of the other paths relative to their initial weights, between 0 and 1.

    Example:
        >>> import covary
        >>> network = covary.networks.relaxed_network("f-fc+conv", 1, (1, 8, 8), 3)
        >>> precision = covary.layers.initialize_equivariant(network, relaxation=0.3)
        >>> prior = covary.Prior(network, precision=precision | {"*": 1.0})
    """
    if not 0 < relaxation < 1:
        raise StructureError(f"Expected a relaxation between 0 and 1, got {relaxation!r}. Pass for example 0.3.")
    precisions: dict[str, float] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, Relaxed) and len(layer.paths) > 1:
            *others, equivariant = layer.paths
            path = layer.paths[equivariant]
            assert isinstance(path, Path), "a relaxed layer has checked its paths"
            path.rescale_(len(layer.paths) ** 0.5)
            for other in others:
                found = _precisions(layer.paths[other], relaxation)
                whole = {".".join(filter(None, (name, "paths", other, tensor))): found[tensor] for tensor in found}
                precisions |= {escape(tensor): value for tensor, value in whole.items()}
    return precisions


def _group_of(paths: Iterable[nn.Module], pool: nn.Module | None) -> tuple[Group | None, bool]:
    """Group of a layer's outputs, and whether its inputs are plain images that it lifts."""
    over = [path for path in paths if isinstance(path, GroupConv | FixedFrame)]
    if not over:
        return pool.group if isinstance(pool, PolyphasePool) else None, False
    return over[0].group, any(isinstance(path, GroupConv) and path.lift for path in over)


def _check_groups(paths: Mapping[str, nn.Module]) -> None:
    """Raise `StructureError` for paths over different groups: slices in different frames cannot be added."""
    over = {name: path.group for name, path in paths.items() if isinstance(path, GroupConv | FixedFrame)}
    for name, group in over.items():
        first = next(iter(over))
        if not alike(over[first], group):
            raise StructureError(
                f"Expected paths over one group, got '{first}' over {over[first]} and '{name}' over {group}: their "
                "slices are turned differently, so that the sum would not commute with shifts. Use a group that "
                "contains both, such as covary.groups.P4M."
            )


def _check_pool(paths: Mapping[str, nn.Module], pool: nn.Module | None) -> None:
    """Raise `StructureError` if a pool would select different grids of the image in the slices of a path."""
    if not isinstance(pool, PolyphasePool):
        return
    for name, path in paths.items():
        if isinstance(path, GroupConv | FixedFrame) and not _fits(pool.group, path.group):
            raise StructureError(
                f"Expected a pool over {path.group}, the group of path '{name}', for the sum to commute with shifts, "
                f"got one over {pool.group or 'no group'}. Pass PolyphasePool({pool.stride}, group) with that group."
            )


def _fits(pooled: Group | None, group: Group) -> bool:
    return alike(pooled, group) if pooled is not None else not turns_shifts(group)


def _rescalable(paths: Mapping[str, nn.Module]) -> list[Path]:
    """The paths; raise `StructureError` if one cannot be rescaled."""
    for name, path in paths.items():
        if not isinstance(path, Path):
            raise StructureError(
                f"Expected a path with a method rescale_(factor), got '{name}' ({type(path).__name__}) without one. "
                "Use a layer of covary.layers, or add the method."
            )
    return [path for path in paths.values() if isinstance(path, Path)]


def _precisions(path: nn.Module, relaxation: float) -> dict[str, float]:
    """Precision of each tensor of a path but those of a basis, by its name there."""
    bases = [module for module in path.modules() if isinstance(module, AbstractSparse)]
    others = {id(tensor) for basis in bases for tensor in (basis.offsets, basis.omega)}
    learned = {name: tensor for name, tensor in path.named_parameters() if tensor.requires_grad}
    amounts = {name: tensor for name, tensor in learned.items() if id(tensor) not in others}
    squares = {name: float(tensor.detach().square().mean()) for name, tensor in amounts.items()}
    known = {name: 1 / (relaxation**2 * square) for name, square in squares.items() if square > 0}
    return {name: known.get(name, max(known.values(), default=1.0)) for name in squares}
