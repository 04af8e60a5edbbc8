r"""The generalized Gauss–Newton :math:`H = \sum_n \hat J_n^\top \Lambda_n \hat J_n` of a model on data, as a matrix."""

from torch import nn

from .._types import Probes
from ..batches import Data, as_batches
from ..linalg import Block, Dense
from ..models import Model, as_model
from .exact import FULL
from .passes import check_model, curvature_pass
from .registry import Curvature
from .rows import KfacApprox


def full(model: nn.Module | Model, data: Data, *, probes: Probes = "exact", seed: int = 0) -> Dense:
    """The full GGN over all weights in their order, sum over data, without the prior; arguments as for `kfac`.

    Example:
        >>> import torch
        >>> from covary.curvature import full
        >>> full(torch.nn.Linear(2, 3), (torch.ones(5, 2), torch.zeros(5, dtype=torch.long))).size
        9
    """
    total = ggn(model, data, Curvature("full", probes), seed)[FULL]
    assert isinstance(total, Dense), "a full GGN is one dense block"
    return total


def diag(model: nn.Module | Model, data: Data, *, probes: Probes = "exact", seed: int = 0) -> Block:
    """The diagonal of the GGN, one block per weight, sum over data, without the prior; arguments as for `kfac`.

    Example:
        >>> import torch
        >>> from covary.curvature import diag
        >>> diag(torch.nn.Linear(2, 3), (torch.ones(5, 2), torch.zeros(5, dtype=torch.long))).diagonal().shape
        torch.Size([9])
    """
    return ggn(model, data, Curvature("diag", probes), seed)


def kfac(
    model: nn.Module | Model,
    data: Data,
    *,
    probes: Probes = "exact",
    seed: int = 0,
    kfac_approx: KfacApprox = "expand",
    group_approx: KfacApprox = "reduce",
) -> Block:
    """The Kronecker-factored GGN, one block per weight, sum over data, without the prior.

    Under an initialized `torch.distributed` process group each process passes its shard, and gets the sum of all.

    Arguments:
        model: A `Model`, whose prior says which weights are covered, or a network.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        probes: "exact" for all C columns of the root of Λ, or a number of random probes.
        seed: The seed of the augmentation's noise and of random probes.
        kfac_approx: "expand" or "reduce" over positions and tokens.
        group_approx: "reduce" or "expand" over the elements of a group convolution.

    Example:
        >>> import torch
        >>> from covary.curvature import kfac
        >>> curvature = kfac(torch.nn.Linear(2, 3), (torch.ones(5, 2), torch.zeros(5, dtype=torch.long)))
        >>> type(curvature["weight"]).__name__
        'Kron'
    """
    return ggn(model, data, Curvature("kron", probes, kfac_approx, group_approx), seed)


def tkfac(
    model: nn.Module | Model,
    data: Data,
    *,
    probes: Probes = "exact",
    seed: int = 0,
    kfac_approx: KfacApprox = "expand",
    group_approx: KfacApprox = "reduce",
) -> Block:
    """The GGN as Kronecker products with its partial traces, one block per weight; arguments as for `kfac`.

    Example:
        >>> import torch
        >>> from covary.curvature import full, tkfac
        >>> network, data = torch.nn.Linear(2, 3), (torch.randn(5, 2), torch.zeros(5, dtype=torch.long))
        >>> bool(torch.isclose(tkfac(network, data).trace(), full(network, data).trace()))
        True
    """
    return ggn(model, data, Curvature("kron-traced", probes, kfac_approx, group_approx), seed)


def ggn(model: nn.Module | Model, data: Data, curvature: Curvature, seed: int = 0) -> Block:
    """The GGN in the structure that is chosen, with a graph unless grad mode is off."""
    model = as_model(model)
    batches = as_batches(data).matching(model.network)
    check_model(model, batches)
    return curvature_pass(model, batches, curvature, seed=seed).curvature
