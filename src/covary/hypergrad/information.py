r"""How well the data determine a hyperparameter of the network, whatever the weights are.

Let f be the outputs for M of N data, u a hyperparameter, J the Jacobian of f in the weights, Λ the curvature of the
likelihood and δ the prior precision. The generalized Gauss–Newton matrix of weights and u together has the blocks
:math:`H + \delta`, :math:`c = J^\top \Lambda\, \partial_u f` and :math:`\partial_u f^\top \Lambda\, \partial_u f`. With
the weights integrated out, the information on u is its Schur complement

.. math:: I = \partial_u f^\top \Lambda\, \partial_u f - c^\top (H + \delta)^{-1} c
    = \min_v \|\partial_u f - J v\|_\Lambda^2 + v^\top \delta v,

so :math:`I^{-1/2}` is the standard deviation of u in the joint Laplace approximation. It is never negative: the second
term is what weights make up for that follow a change of u. The curvature of the log evidence itself has further terms,
of residuals and of the log-volume. For a linear model with Gaussian noise whose features depend on u, its expectation
is between 0 and twice that of I; of a trained network they are large, of both signs, and mostly noise.

Sums over M data are scaled by N/M. By the minimum, the information of a union is at least the sum of those of its
parts, each with its part of δ, so that fewer data give an I that is too small on average: errors that are too large.

The minimum is searched in a growing space of directions, the residual gradients of all hyperparameters times the
inverse of a structured curvature (a block Krylov space), with exact products with H. It is approached from above.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Batches, IndexedBatch, outputs_of
from ..curvature.decompositions import decompose
from ..curvature.passes import CurvatureStatistics, chunk_slices
from ..curvature.registry import joined_shifts
from ..distributed import all_sum
from ..geometry.estimators.operators import JacobianRoot
from ..likelihoods import given
from ..models import Model

Direction = Mapping[str, Tensor]  # the displacement of each parameter for t = 1, by name
NUM_ROUNDS = 2
RANK = 1e-7  # relative: directions that earlier ones nearly contain add nothing


class Line(NamedTuple):
    """A line through the present parameters along which a hyperparameter u changes."""

    direction: Direction  # the displacement of parameters for t = 1
    low: float  # the first place of the difference, t ≤ 0
    high: float  # the second, t > 0
    length: float  # the change of u from one to the other
    middle: float = 0.0  # the mean of u at both, relative to the present u


class Information(NamedTuple):
    """What the data say about a hyperparameter."""

    held: float  # its information if the weights are known
    total: float  # I, with the weights integrated out


class Sample(NamedTuple):
    """The data that are read."""

    batches: Batches  # M data (of each process, its shard of them)
    num_read: int  # M, over all processes
    num_data: int  # N, the number of all data


@torch.no_grad()
def information_along(
    model: Model,
    sample: Sample,
    statistics: CurvatureStatistics,
    lines: Sequence[Line],
    *,
    seed: int = 0,
    num_rounds: int = NUM_ROUNDS,
) -> list[Information]:
    """The information on the hyperparameter of each line, the others held.

    Arguments:
        model: The model; call `eval()` first if it has `BatchNorm` or `Dropout`.
        sample: The data.
        statistics: A structured curvature of all data; it decides how fast the minimum is found, not which.
        lines: The lines, at least one.
        seed: The seed of the augmentation's noise.
        num_rounds: How often the space of directions grows, by one for each line.
    """
    curvature = statistics.curvature
    shifts = {name: shift.detach() for name, shift in joined_shifts(curvature, model).items()}
    prior = torch.cat([shifts[name].expand(block.size) for name, block in curvature.blocks.items()])
    decompose(curvature, shifts)
    rate, root = sample.num_data / sample.num_read, JacobianRoot(model, sample.batches, seed)
    held, cross = (rate * all_sum(part) for part in _own_and_cross(model, sample.batches, lines, seed))
    residual, directions, products = cross, [], []
    followed = torch.zeros_like(held)
    for left in reversed(range(num_rounds)):
        directions.append(nn.functional.normalize(curvature.solve(residual, shifts), dim=1))
        products.append(root.push(directions[-1]))
        basis, pushed = torch.cat(directions), torch.cat(products)
        gram = rate * all_sum(pushed.double() @ pushed.double().T) + (basis * prior).double() @ basis.double().T
        along = basis.double() @ cross.double().T
        coefficients = torch.linalg.pinv(gram, rtol=RANK, hermitian=True) @ along
        followed = (along * coefficients).sum(0)
        if left:
            back = coefficients.T.to(basis)
            residual = cross - rate * all_sum(root.pull(back @ pushed)) - prior * (back @ basis)
    totals = (held.double() - followed).clamp_min(0.0)
    return [Information(*pair) for pair in zip(held.tolist(), totals.tolist(), strict=True)]


def _own_and_cross(
    model: Model, batches: Batches, lines: Sequence[Line], seed: int
) -> tuple[Float[Tensor, " K"], Float[Tensor, "K P"]]:
    """The sums ∂fᵀΛ∂f and JᵀΛ∂f for each line, chunk by chunk."""
    weights = model.weights.values()
    like = next(iter(weights))
    held, cross = like.new_zeros(len(lines)), like.new_zeros(len(lines), sum(weight.numel() for weight in weights))
    for batch in batches:
        for rows in chunk_slices(model.network, len(batch.x)):
            own, pulled = _chunk(model, IndexedBatch(*(part[rows] for part in batch)), lines, seed)
            held, cross = held + own, cross + pulled
    return held, cross


def _chunk(model: Model, batch: IndexedBatch, lines: Sequence[Line], seed: int) -> tuple[Tensor, Tensor]:
    weights, likelihood = list(model.weights.values()), given(model.likelihood, batch.y)
    changes = [_change(model, batch, line, seed) for line in lines]  # before the graph, whose parameters must not move
    with torch.enable_grad():
        outputs = outputs_of(model.network, batch, seed)
        epsilon = torch.zeros_like(outputs, requires_grad=True)
        root = likelihood.root_product(outputs.detach(), epsilon)
    held, cross = [], []
    for change in changes:
        (rooted,) = torch.autograd.grad(root, epsilon, change, retain_graph=True)  # Lᵀ ∂f, with L Lᵀ = Λ
        curved = likelihood.root_product(outputs.detach(), rooted)
        pulled = torch.autograd.grad(outputs, weights, curved, retain_graph=True, materialize_grads=True)
        held.append(rooted.square().sum())
        cross.append(torch.cat([part.flatten() for part in pulled]))
    return torch.stack(held), torch.stack(cross)


def _change(model: Model, batch: IndexedBatch, line: Line, seed: int) -> Tensor:
    """The derivative of the outputs in u, by a difference under common noise."""
    with displaced(model, line.direction, line.high):
        after = outputs_of(model.network, batch, seed)
    with displaced(model, line.direction, line.low):
        return (after - outputs_of(model.network, batch, seed)) / line.length


@contextmanager
def displaced(model: Model, direction: Direction, step: float) -> Iterator[None]:
    """The parameters of a model moved by a step along a direction, while the context is open."""
    parameters = model.parameters()
    before = {name: parameters[name].detach().clone() for name in direction}
    with torch.no_grad():
        for name, part in direction.items():
            parameters[name].add_(step * part)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                parameters[name].copy_(value)


def parameters_of(module: nn.Module, model: Model) -> dict[str, nn.Parameter]:
    """The learned parameters of a part of the network, by their names in the model."""
    own = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
    return {name: parameter for name, parameter in model.parameters().items() if id(parameter) in own}
