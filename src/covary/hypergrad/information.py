r"""How well the data determine a hyperparameter: the curvature of the evidence along a line, with weights that follow.

Let :math:`L(t) = \log Z(\theta, \eta + t d)` be the evidence along a direction d, g(t) the gradient of the log joint in
the weights there, and :math:`c = g'(0)`. Weights that stay at their mode follow by :math:`(H + \delta)^{-1} c\, t`, by
which the log joint gains :math:`\frac12 t^2 c^\top (H + \delta)^{-1} c`. So the information on t is

.. math:: J = -L''(0) - c^\top (H + \delta)^{-1} c,

and :math:`J^{-1/2}` is the standard deviation of its Laplace posterior under a flat prior. Without the second term, as
if the weights were known, errors would be too small. Derivatives are central differences over ±h under common noise and
probes.

Of M out of N data, log-likelihood and statistics are scaled by N/M. The square of c is a sum over pairs of data, a = Σ
c_n² over equal and b over different ones, which are scaled by N/M and by N(N − 1)/(M(M − 1)): scaled as a whole, the
noise of c would count as information. Blocks of s data separate them, since their squares sum to
:math:`a + b\,(s - 1)/(M - 1)`. With M = N all of it is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Batches
from ..curvature.passes import CurvatureStatistics, curvature_pass
from ..curvature.registry import Curvature, joined_shifts
from ..evidence.terms import evidence_terms
from ..models import Model
from .running import RunningStatistics

Direction = Mapping[str, Tensor]  # the displacement of each parameter for t = 1, by name


class Information(NamedTuple):
    """What the data say about the place on a line.

    Arguments:
        gradient: L'(0), at fixed weights.
        fixed: −L''(0), at fixed weights.
        followed: cᵀ(H + δ)⁻¹c, what weights that follow make up for.
    """

    gradient: float
    fixed: float
    followed: float

    @property
    def total(self) -> float:
        """J, which is positive at a maximum."""
        return self.fixed - self.followed


class _Place(NamedTuple):
    """The evidence at one place, and the gradient of each block of data in the weights."""

    log_evidence: float
    statistics: CurvatureStatistics
    gradients: Float[Tensor, "B P"]


class Sample(NamedTuple):
    """The data that are read.

    Arguments:
        blocks: M data in blocks of equal size.
        num_data: N, the number of all data.
    """

    blocks: Sequence[Batches]
    num_data: int


@torch.no_grad()
def information_along(
    model: Model,
    sample: Sample,
    curvature: Curvature,
    lines: Sequence[tuple[Direction, float]],
    *,
    seed: int = 0,
) -> list[Information]:
    """The information along each line through the present hyperparameters.

    Arguments:
        model: The model, in evaluation mode where it has modes, its weights near their mode.
        sample: The data.
        curvature: The choice of curvature; any but "kernel".
        lines: For each line, the displacement of parameters of the network and the likelihood, and the step h.
        seed: The seed of noise and probes.
    """
    here = _place(model, sample, curvature, seed)
    shifts = joined_shifts(here.statistics.curvature, model)
    found = []
    for direction, step in lines:
        with displaced(model, direction, step):
            after = _place(model, sample, curvature, seed)
        with displaced(model, direction, -step):
            before = _place(model, sample, curvature, seed)
        change = (after.gradients - before.gradients) / (2 * step)
        followed = _scaled_square(change, here.statistics.curvature.solve(change, shifts), sample, _num_read(here))
        bend = (after.log_evidence - 2 * here.log_evidence + before.log_evidence) / step**2
        found.append(Information((after.log_evidence - before.log_evidence) / (2 * step), -bend, followed))
    return found


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


def _place(model: Model, sample: Sample, curvature: Curvature, seed: int) -> _Place:
    total: RunningStatistics | None = None
    gradients = []
    for block in sample.blocks:
        part = curvature_pass(model, block, curvature, seed=seed, with_gradient=True)
        assert part.gradient is not None, "it was requested"
        gradients.append(torch.cat([part.gradient[name].flatten() for name in model.weights]))
        total = RunningStatistics.of(part) if total is None else total.updated(part, 1.0)
    assert total is not None, "there is at least one block"
    scaled = total.scaled(sample.num_data)
    read = CurvatureStatistics(scaled.curvature, scaled.log_likelihood, None, round(total.num_data))
    return _Place(float(evidence_terms(model, read).log_evidence), read, torch.stack(gradients))


def _num_read(place: _Place) -> int:
    return place.statistics.num_data


def _scaled_square(parts: Float[Tensor, "B P"], solved: Float[Tensor, "B P"], sample: Sample, num_read: int) -> float:
    """The square of the sum over all N data, from the sums over blocks of M of them."""
    products = parts.double() @ solved.double().T
    whole, own = float(products.sum()), float(products.diagonal().sum())
    if num_read == sample.num_data:
        return whole
    size = num_read / len(parts)
    pairs = (whole - own) * (num_read - 1) / (num_read - size)
    rate = sample.num_data / num_read
    return rate * (whole - pairs) + rate * (sample.num_data - 1) / (num_read - 1) * pairs


def parameters_of(module: nn.Module, model: Model) -> dict[str, nn.Parameter]:
    """The learned parameters of a part of the network, by their names in the model."""
    own = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
    return {name: parameter for name, parameter in model.parameters().items() if id(parameter) in own}
