"""Where a relaxed layer starts: with all of its paths alike, or as its strict path, from which the rest may grow."""

from glob import escape

from torch import nn

from ..errors import StructureError
from .relaxed import Path, Relaxed
from .sparse import AbstractSparse


def initialize_equivariant(network: nn.Module, relaxation: float) -> dict[str, float]:
    r"""Initial precisions for a `Prior`, by patterns, under which relaxed layers start as their strict paths.

    The network is changed, so call this once. Leave out the patterns of weights that the prior excludes.

    The last path of a layer is by custom the one that keeps most symmetry. It is scaled up by :math:`k^{1/2}`, which
    `Relaxed` divided each of k paths by, so that alone it keeps the variance of its inputs. A tensor of any other path
    with root mean square s gets the precision :math:`(c s)^{-2}`, c = `relaxation`; one that is zero, such as a bias,
    the largest precision of its path. Frozen tensors have none, and what says where a basis lies and how wide it is,
    not how much of it there is, keeps its own. Weights follow where `fit` is told to (`weights.prior_scaled_lr`).

    From the free end, where all paths start alike, a free path learns the training data by heart before the strict one
    has learned anything, and the evidence, which sees weights near a mode, keeps it. From the strict end, with δ far
    above the curvature H of a tensor and θ at its mode g/δ, :math:`2\, d \log Z / d \log \delta = (\operatorname{tr} H
    - \|g\|^2) / \delta`: a tensor grows where the gradient g of the log-likelihood is longer than chance has it.

    Arguments:
        network: A network with relaxed layers; those of a single path stay as they are.
        relaxation: The size c of what relaxes, in units of what it starts with, between 0 and 1.
    """
    if not 0 < relaxation < 1:
        raise StructureError(
            f"relaxation is a size between 0 and 1; {relaxation!r} came. Pass for example 0.3, or leave the layers as "
            "they are."
        )
    precisions: dict[str, float] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, Relaxed) and len(layer.paths) > 1:
            *free, strict = layer.paths
            path = layer.paths[strict]
            assert isinstance(path, Path), "a relaxed layer has checked its paths"
            path.rescale_(len(layer.paths) ** 0.5)
            for other in free:
                found = _precisions(layer.paths[other], relaxation)
                whole = {".".join(filter(None, (name, "paths", other, tensor))): found[tensor] for tensor in found}
                precisions |= {escape(tensor): value for tensor, value in whole.items()}
    return precisions


def _precisions(path: nn.Module, relaxation: float) -> dict[str, float]:
    """The precision of each tensor of a path that is an amount, by its name there."""
    bases = [module for module in path.modules() if isinstance(module, AbstractSparse)]
    others = {id(tensor) for basis in bases for tensor in (basis.offsets, basis.omega)}
    learned = {name: tensor for name, tensor in path.named_parameters() if tensor.requires_grad}
    amounts = {name: tensor for name, tensor in learned.items() if id(tensor) not in others}
    squares = {name: float(tensor.detach().square().mean()) for name, tensor in amounts.items()}
    known = {name: 1 / (relaxation**2 * square) for name, square in squares.items() if square > 0}
    return {name: known.get(name, max(known.values(), default=1.0)) for name in squares}
