"""Passes over data: the curvature's additive statistics, the log-likelihood, the gradient of the weights.

As everywhere in torch, what a pass returns carries a graph unless it is computed under `torch.no_grad()`.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._text import warn_once
from .._types import Probes, SampleAveraging
from ..batches import Batches, IndexedBatch, outputs_of_first
from ..distributed import all_sum_each, all_sum_number
from ..likelihoods import Likelihood, RankDeficient, given
from ..linalg import AbstractPSD, Block, Diagonal
from ..models import Model
from ..noise import Stream, rademacher
from .capture import CHUNK_ENTRIES, Captured, capture
from .coverage import coverage, find_uses, is_by_autograd, require_independence
from .exact import FULL, accumulate
from .registry import BlocksFunction, Curvature
from .self_check import NUM_TOGETHER, check_jacobian_factors

ROWS_AT_ONCE = 2048  # rows of the inner batch in one chunk


class CurvatureStatistics(NamedTuple):
    """Sums over data: over those of all processes, unless it is said that they are those of one."""

    curvature: Block  # H, one block per weight or one for all
    log_likelihood: Float[Tensor, ""]  # log p(D | θ)
    # ∇ log p(D | θ) by weight, or None where it was not requested
    gradient: Mapping[str, Tensor] | None
    num_data: int

    def accumulate(self, other: "CurvatureStatistics") -> "CurvatureStatistics":
        """The sums over the data of both, without gradient."""
        log_likelihood = self.log_likelihood + other.log_likelihood
        curvature, num_data = self.curvature.accumulate(other.curvature), self.num_data + other.num_data
        return CurvatureStatistics(curvature, log_likelihood, None, num_data)


def curvature_pass(
    model: Model,
    batches: Batches,
    curvature: Curvature,
    *,
    seed: int = 0,
    with_gradient: bool = False,
    blocks_of: BlocksFunction | None = None,
) -> CurvatureStatistics:
    """The statistics of all data.

    Arguments:
        seed: The seed of the augmentation's noise and of random probes.
        with_gradient: Whether the weights' gradient is computed too; it costs about a training pass.
        blocks_of: From a captured pass and its probes to blocks, instead of the curvature's own.
    """
    weights, blocks_of = model.weights, blocks_of or curvature.blocks
    blocks: dict[str, AbstractPSD] = {}
    gradient = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    log_likelihoods, num_data = [], 0
    for captured, batch in captured_chunks(model, batches, seed):
        if with_gradient:
            _add_gradient(gradient, model, captured, batch)
        log_likelihoods.append(model.likelihood.log_prob(captured.outputs, batch.y).double())
        blocks = accumulate(blocks, blocks_of(captured, draw_probes(model, captured, batch, curvature.probes, seed)))
        num_data += len(batch.x)
    found = over_processes(
        CurvatureStatistics(joined(blocks, weights), torch.stack(log_likelihoods).sum(), None, num_data)
    )
    if not with_gradient:
        return found
    return found._replace(gradient=dict(zip(gradient, all_sum_each(list(gradient.values())), strict=True)))


def over_processes(statistics: CurvatureStatistics) -> CurvatureStatistics:
    """The sums over all processes of what each has found on its data, without gradient."""
    own = [statistics.log_likelihood]

    def note(statistic: Tensor) -> Tensor:
        own.append(statistic)
        return statistic

    statistics.curvature.map(note)
    log_likelihood, *sums = all_sum_each(own)
    remaining = iter(sums)
    curvature = statistics.curvature.map(lambda _: next(remaining))  # in the same order
    return CurvatureStatistics(curvature, log_likelihood, None, all_sum_number(statistics.num_data))


def captured_chunks(
    model: Model, batches: Batches, seed: int, *, fixed_weights: bool = False
) -> Iterator[tuple[Captured, IndexedBatch]]:
    """Captured passes over the data, in chunks with a bounded number of rows: a sum over data is one over chunks."""
    weights = model.weights
    expanded = sum(
        weights[name].numel() for name, uses in find_uses(model.network, weights).items() if is_by_autograd(uses)
    )
    for batch in batches:
        for rows in chunk_slices(model.network, len(batch.x), expanded):
            chunk = IndexedBatch(*(tensor[rows] for tensor in batch))
            yield captured_batch(model, weights, chunk, seed, fixed_weights=fixed_weights), chunk


def captured_batch(
    model: Model,
    weights: Mapping[str, nn.Parameter],
    batch: IndexedBatch,
    seed: int,
    *,
    fixed_weights: bool = False,
) -> Captured:
    """The captured pass of one batch, with its outputs and targets checked."""
    captured = capture(model.network, batch.x, weights, index=batch.identity, seed=seed, fixed_weights=fixed_weights)
    model.likelihood.check(captured.outputs, batch.y)
    return captured


def draw_probes(
    model: Model, captured: Captured, batch: IndexedBatch, probes: Probes, seed: int, stream: int = Stream.CURVATURE
) -> Iterator[Float[Tensor, "N C"]]:
    """The probes of a chunk; the signs of random ones are a function of (seed, stream, identity)."""
    likelihood = given(model.likelihood, batch.y)
    if probes == "exact":
        if isinstance(likelihood, RankDeficient):  # each column is a backward pass
            return likelihood.root_columns(captured.outputs)
        return root_probes(likelihood, captured.outputs, None)
    shape = (probes, captured.outputs.shape[1])
    drawn = rademacher(seed, batch.identity, shape, stream=stream, dtype=captured.outputs.dtype)
    return root_probes(likelihood, captured.outputs, drawn.transpose(0, 1))


def root_probes(
    likelihood: Likelihood, outputs: Float[Tensor, "N C"], signs: Float[Tensor, "K N C"] | None
) -> Iterator[Float[Tensor, "N C"]]:
    r"""Vectors :math:`v_k` with :math:`\sum_k v_k v_k^\top = \Lambda` for every datum.

    Exact columns :math:`\Lambda^{1/2} e_k` for `signs=None`; otherwise random probes
    :math:`\Lambda^{1/2}\epsilon_k/\sqrt{K}`, for which the sum holds in expectation, value and derivative. (Labels
    sampled from the model would give the value and lose the derivative.)

    Arguments:
        signs: Rademacher variables ε.
    """
    if signs is None:
        identity = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        for column in identity:
            yield likelihood.root_product(outputs, column.expand_as(outputs))
    else:
        for epsilon in signs:
            yield likelihood.root_product(outputs, epsilon) / math.sqrt(len(signs))


def joined(blocks: Mapping[str, AbstractPSD], weights: Mapping[str, nn.Parameter]) -> Block:
    """The curvature of all weights as one block-diagonal matrix; that of a weight that was never called is zero."""
    if FULL in blocks:
        return Block(blocks)
    zero = {n: Diagonal(weight.detach().new_zeros(weight.numel())) for n, weight in weights.items() if n not in blocks}
    return Block({name: blocks[name] if name in blocks else zero[name] for name in weights})


def chunk_slices(network: nn.Module, num_data: int, num_expanded: int = 0) -> list[slice]:
    """Slices of a batch that bound the rows of the inner batch; one slice for a batch with one datum.

    Arguments:
        num_expanded: The entries of weights without a rule, which every datum has by itself.
    """
    num_samples = network.num_samples if isinstance(network, SampleAveraging) else 1
    needed = max(num_samples / ROWS_AT_ONCE, num_expanded / CHUNK_ENTRIES)
    chunks = min(num_data, math.ceil(num_data * needed))
    step = math.ceil(num_data / chunks)
    return [slice(start, start + step) for start in range(0, num_data, step)]


def check_model(model: Model, batches: Batches) -> None:
    """Raise for the first mistake that would make the curvature wrong, found on a few data."""
    weights = model.weights
    require_independence(model.network)
    if cost := coverage(model.network, weights).cost:
        warn_once(f"{cost} covary.curvature.coverage(network) lists them.")
    few = batches.few(NUM_TOGETHER)
    with torch.no_grad():  # here alone outputs have the axes that the network gives them: passes flatten positions
        model.likelihood.check(outputs_of_first(model.network, few), few.y[:1])
    check_jacobian_factors(model.network, few.x, weights)


def _add_gradient(total: dict[str, Tensor], model: Model, captured: Captured, batch: IndexedBatch) -> None:
    with torch.enable_grad():
        log_likelihood = model.likelihood.log_prob(captured.outputs, batch.y)
    gradients = torch.autograd.grad(
        log_likelihood, list(captured.weights.values()), retain_graph=True, allow_unused=True
    )
    for name, gradient in zip(captured.weights, gradients, strict=True):
        if gradient is not None:
            total[name] += gradient
