r"""The gradient of the evidence in two passes: the memory of one batch, the value of the whole.

Pass 1, without graph, over all N data: the curvature's statistics T (factors, blocks) and, in closed form, their
cotangents :math:`C = \partial\, \tfrac12\log|H+\delta| / \partial T`. Pass 2, with graph, chunk by chunk on M ≤ N data:

.. math:: \nabla_\eta \log Z = \frac NM \sum_\text{chunks} \nabla_\eta
    \big( \log p(D_\text{chunk}|\theta,\eta) - \langle C, T_\text{chunk} \rangle \big).

With M = N, the same noise and the same probes this is the gradient of everything at once (paper 1, Eq. (20)).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..batches import Batches, Data, as_batches
from ..curvature.decompositions import decompose
from ..curvature.exact import accumulate
from ..curvature.passes import (
    CurvatureStatistics,
    captured_chunks,
    check_model,
    curvature_pass,
    draw_probes,
    joined,
)
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_blocks, joined_shifts
from ..distributed import all_sum_each
from ..evidence.terms import evidence_terms
from ..linalg import AbstractPSD, Block
from ..models import Model, as_model
from ..noise import Stream
from .hyperparameters import (
    HyperGradient,
    detached,
    gradients,
    model_hyperparameters,
    prior_hyperparameters,
)

ONE_PROBE = Curvature(probes=1)


class Cotangents(NamedTuple):
    r"""What the second pass needs of the first."""

    curvature: Curvature
    # the cotangents ∂ ½ log|H + δ| / ∂T of each block's statistics T
    tensors: Mapping[str, tuple[Tensor, ...]]
    num_data: int  # N, the number of all data


class SecondPass(NamedTuple):
    """What the second pass returns."""

    gradients: dict[str, Tensor]  # the gradient of log Z, by hyperparameter name
    statistics: CurvatureStatistics  # of the data that this process has read, not scaled and without graph


def two_pass(
    model: nn.Module | Model,
    data: Data,
    curvature: Curvature | CurvatureName = ONE_PROBE,
    *,
    num_data: int | None = None,
    share_probes: bool = False,
    seed: int = 0,
) -> HyperGradient:
    r"""The gradient of :math:`\log Z` with respect to every hyperparameter, by name; `.terms` has the evidence.

    The weights are held fixed. Under an initialized `torch.distributed` process group each process passes its shard and
    gets the gradient of all.

    Arguments:
        model: The model, or a network; call `eval()` first if it has `BatchNorm` or `Dropout`.
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure; any but "kernel". By default KFAC with one
            random probe; the terms' log-volume is that of the probes.
        num_data: M, how many data (of each process) the second pass reads; all by default.
        share_probes: Whether both passes use the same random probes: equal to `direct`, and more biased than
            independent ones.
        seed: The seed of the augmentation's noise, of random probes, and of the choice of the M data.

    Example:
        >>> import torch, covary
        >>> network = covary.Averaged(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)),
        ...                           covary.augment.Affine2d(("rotation",)), num_samples=2)
        >>> gradient = covary.hypergrad.two_pass(network, (torch.randn(8, 1, 4, 4), torch.arange(8) % 3))
        >>> list(gradient)
        ['prior.log_precision', 'augment.raw_widths']
    """
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    check_blocks(curvature, model.prior)
    check_model(model, batches)
    with torch.no_grad():
        statistics = curvature_pass(model, batches, curvature, seed=seed)
    learned = bool(model_hyperparameters(model))
    # once, for the log-determinant needs eigenvalues alone, and the cotangents eigenvectors
    decompose(statistics.curvature, joined_shifts(statistics.curvature, model), vectors=learned)
    cotangents = curvature_cotangents(model, statistics, curvature) if learned else None
    gradient = prior_gradient(model, statistics)
    if cotangents is not None:
        second = batches if num_data is None else batches.subset(num_data, seed)
        gradient.update(model_gradient(model, second, cotangents, share_probes=share_probes, seed=seed).gradients)
    return gradient


@torch.enable_grad()
def prior_gradient(model: Model, statistics: CurvatureStatistics) -> HyperGradient:
    """The gradient with respect to the prior alone, at the statistics of a pass: no pass of its own.

    Several steps on the prior may follow one pass; the eigenvalues are computed once.
    """
    terms = evidence_terms(model, statistics)
    return HyperGradient(gradients(terms.log_evidence, prior_hyperparameters(model.prior)), detached(terms))


def curvature_cotangents(model: Model, statistics: CurvatureStatistics, curvature: Curvature) -> Cotangents:
    """The cotangents of a first pass, in closed form."""
    shifts = joined_shifts(statistics.curvature, model)
    return Cotangents(curvature, statistics.curvature.half_logdet_cotangents(shifts), statistics.num_data)


@torch.enable_grad()
def model_gradient(
    model: Model, batches: Batches, cotangents: Cotangents, *, share_probes: bool = False, seed: int = 0
) -> SecondPass:
    """The second pass alone: the gradient with respect to the hyperparameters of network and likelihood.

    Several may follow one first pass, on different data or noise, as long as the factors are near those of the model.

    Arguments:
        batches: The M data that this pass reads (of each process); the gradient is scaled by N/M.
        share_probes: Whether the random probes are those of a first pass with this seed.
    """
    parameters, weights = model_hyperparameters(model), model.weights
    curvature, stream = cotangents.curvature, Stream.CURVATURE if share_probes else Stream.CURVATURE_SECOND
    total = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    blocks: dict[str, AbstractPSD] = {}
    log_likelihoods, num_read = [], 0
    for captured, batch in captured_chunks(model, batches, seed, fixed_weights=True):
        part = curvature.blocks(captured, draw_probes(model, captured, batch, curvature.probes, seed, stream))
        log_likelihood = model.likelihood.log_prob(captured.outputs, batch.y)
        objective = log_likelihood - inner_product(cotangents.tensors, part)
        for name, gradient in gradients(objective, parameters).items():
            total[name] += gradient
        blocks = accumulate(blocks, {name: block.map(Tensor.detach) for name, block in part.items()})
        log_likelihoods.append(log_likelihood.detach().double())
        num_read += len(batch.x)
    found = CurvatureStatistics(joined(blocks, weights), torch.stack(log_likelihoods).sum(), None, num_read)
    like: Tensor = next(iter((total or weights).values()))  # of their type, the number goes into their message
    *sums, number = all_sum_each([*total.values(), like.new_tensor(num_read)])
    scale = cotangents.num_data / float(number)
    return SecondPass({name: scale * gradient for name, gradient in zip(total, sums, strict=True)}, found)


def inner_product(cotangents: Mapping[str, tuple[Tensor, ...]], blocks: Mapping[str, AbstractPSD]) -> Tensor:
    r"""The sum :math:`\langle C, T \rangle` over all statistics of the blocks."""
    products = [
        (cotangent * statistic).sum()
        for name, statistics in Block(blocks).tensors.items()
        for cotangent, statistic in zip(cotangents[name], statistics, strict=True)
    ]
    return torch.stack(products).sum()
