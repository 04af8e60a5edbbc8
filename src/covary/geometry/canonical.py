r"""The canonical scale of networks with rectified units.

A unit between two layers, :math:`v\,\mathrm{relu}(w^\top x + b)`, is the same function for (s·w, s·b, v/s) at every
s > 0. That is a symmetry of the network, not a change of coordinates: two sets of weights with one function, at which
Euclidean quantities differ. Scales at which the incoming weights (w, b) and the outgoing v of every unit have equal
norms minimize :math:`\|\theta\|^2` among all of them; the sum is strictly convex in the logarithms of the scales, so
there is one such point, and every rescaled version of a network leads to it.
"""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import NumericalError, UnsupportedLayerError

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
RECTIFIERS = (nn.ReLU, nn.LeakyReLU)
# a factor s > 0 on a channel passes through these unchanged; Flatten keeps the channels' order
TRANSPARENT = (
    *(nn.Identity, nn.Flatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
)
MOST_SWEEPS = 10_000


class _Pair(NamedTuple):
    """Two layers with only rectifiers and modules that are transparent to a scale between them."""

    before: Layer
    after: Layer


@torch.no_grad()
def canonical_scale(network: nn.Module) -> nn.Sequential:
    """A copy of the network with the same function, in which every rectified unit has equal norms on both sides.

    Units are rescaled between `Linear` and `Conv` layers with `ReLU` or `LeakyReLU`, and optionally pooling, `Flatten`
    or `Dropout`, between them; layers with any other module between them, such as a tanh, are not changed. A unit
    whose incoming or outgoing weights are all 0 is not changed. The function is unchanged to rounding.

    Arguments:
        network: A chain of modules, `nn.Sequential`, also of chains.

    Example:
        >>> network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
        >>> _ = nn.init.constant_(network[0].weight, 8.0), nn.init.constant_(network[2].weight, 2.0)
        >>> [layer.weight.item() for layer in canonical_scale(network) if isinstance(layer, nn.Linear)]
        [4.0, 4.0]
    """
    if not isinstance(network, nn.Sequential):
        raise UnsupportedLayerError(
            f"Expected nn.Sequential, got {type(network).__name__}, whose order of calls is not known. Pass the chain "
            "inside it, such as averaged.network."
        )
    copy = deepcopy(network)
    pairs = _pairs(list(_leaves(copy)))
    # rounding in the norms of large layers keeps the last digits from converging
    tolerance = 100 * max((torch.finfo(pair.before.weight.dtype).eps for pair in pairs), default=0.0)
    for _ in range(MOST_SWEEPS):
        # balancing one layer's units changes the norms of its neighbors': sweep until all are even
        if max((_balance(pair) for pair in pairs), default=0.0) <= tolerance:
            return copy
    raise NumericalError(
        f"The scales of the units did not converge within {MOST_SWEEPS} sweeps. Look for units whose incoming or "
        "outgoing weights almost vanish, or convert the network to float64."
    )


def _balance(pair: _Pair) -> float:
    """The largest change of a unit's log-scale in making its norms equal."""
    before, after = pair
    incoming = before.weight.flatten(1).square().sum(1)
    if before.bias is not None:
        incoming = incoming + before.bias.square()
    outgoing = _by_unit(after, len(incoming)).square().sum((1, 3)).flatten()
    alive = (incoming > 0) & (outgoing > 0)
    scale = torch.where(alive, outgoing / incoming, 1.0).pow(0.25)
    before.weight.mul_(scale.view(-1, *[1] * (before.weight.ndim - 1)))
    if before.bias is not None:
        before.bias.mul_(scale)
    view = _by_unit(after, len(scale))
    view.div_(scale.view(len(view), 1, -1, 1))
    return float(scale.log().abs().max())


def _by_unit(layer: Layer, num_units: int) -> Float[Tensor, "groups outputs units rest"]:
    """The weight of a layer with the units that it reads on an axis of their own, within their groups; a view."""
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    return layer.weight.view(groups, layer.weight.shape[0] // groups, num_units // groups, -1)


def _leaves(network: nn.Sequential) -> Iterator[nn.Module]:
    """The modules of a chain in the order of their calls."""
    for module in network:
        if isinstance(module, nn.Sequential):
            yield from _leaves(module)
        else:
            yield module


def _pairs(modules: list[nn.Module]) -> list[_Pair]:
    """Layers of a chain with a rectifier between them, each pair checked."""
    uses = Counter(parameter for module in modules for parameter in module.parameters())
    pairs: list[_Pair] = []
    before: Layer | None = None
    between: list[nn.Module] = []
    for module in modules:
        if isinstance(module, LAYERS):
            if before is not None and any(isinstance(each, RECTIFIERS) for each in between):
                _check(before, between, module, uses)
                pairs.append(_Pair(before, module))
            before, between = module, []
        elif isinstance(module, (*RECTIFIERS, *TRANSPARENT)):
            between.append(module)
        else:
            before = None
    return pairs


def _check(before: Layer, between: list[nn.Module], after: Layer, uses: Counter[nn.Parameter]) -> None:
    """Raise `UnsupportedLayerError` if the units between two layers cannot be rescaled."""
    flattened = [module for module in between if isinstance(module, nn.Flatten)]
    harmless = (*RECTIFIERS, nn.Flatten, nn.Identity, nn.Dropout)
    pooled = any(not isinstance(module, harmless) for module in between)
    if isinstance(before, nn.Linear):
        # a row of units: whatever pools or splits that row mixes them
        fits = isinstance(after, nn.Linear) and after.in_features == before.out_features and not pooled
    elif isinstance(after, nn.Linear):
        first = [module.start_dim == 1 and module.end_dim == -1 for module in flattened]
        fits = len(first) == 1 and all(first) and after.in_features % before.out_channels == 0
    else:
        fits = after.in_channels == before.out_channels and not flattened
    own = all("weight" in layer._parameters for layer in (before, after))
    once = all(uses[parameter] == 1 for layer in (before, after) for parameter in layer.parameters())
    if not (fits and own and once):
        raise UnsupportedLayerError(
            f"The units between {before} and {after} cannot be rescaled: each must be one row of the first weight "
            "and its own columns of the second, and both layers must hold their own weights and be called once. "
            "Remove parametrizations such as weight_norm, and flatten all axes but the first before a linear layer."
        )
