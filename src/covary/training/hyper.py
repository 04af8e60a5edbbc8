r"""Hyper steps: the hyperparameters climb the evidence, with the weights held fixed.

A hyper step has several gradients of log Z in the prior, from the statistics of the curvature, and several in
augmentation and likelihood, from M data each. With the estimator "running" these data also update the statistics
(`hypergrad.running`), so that no step reads all data; with "two_pass" a pass over all data computes them anew. How far
widths move at once is bounded (`training.widths`).
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce

import torch
from torch import nn
from torch.optim import Optimizer

from ..batches import Batches, IndexedBatch, outputs_of
from ..config import FitConfig
from ..curvature.decompositions import decompose
from ..curvature.passes import CurvatureStatistics, curvature_pass, over_processes
from ..curvature.registry import Curvature, check_curvature, joined_shifts
from ..distributed import all_sum, own, own_part, place
from ..errors import StructureError
from ..evidence import EvidenceTerms
from ..hypergrad import RunningStatistics
from ..hypergrad.hyperparameters import model_hyperparameters
from ..hypergrad.partition import check_per_weight
from ..hypergrad.two_pass import Cotangents, SecondPass, curvature_cotangents, model_gradient, prior_gradient
from ..models import Model
from ..noise import Stream, permutation
from ..records import Evidence
from .ascent import (
    check_finite,
    chosen_curvature,
    climb,
    climb_prior,
    evaluated_curvature,
    evidence_record,
    hyper_model,
    hyper_seed,
)
from .bounds import kernel_steps, stochastic_steps
from .hyper_state import HyperState
from .learning_rates import set_rates
from .schedule import cosine, filled_in, hyper_progress, seed_for
from .widths import Move, evidence_change, held_fixed

STEP_DATA = 32  # M of a step on the augmentation with running statistics
FIRST_DATA = 1000  # data of the first running statistics


def hyper_step(state: HyperState, batches: Batches, config: FitConfig) -> Evidence:
    """One or several steps of the hyperparameters; the record is the estimate of the evidence before them.

    Arguments:
        state: The state, changed.
        batches: All training data; this process reads its shard.
        config: The settings.
    """
    optimizer = state.optimizer
    assert optimizer is not None, "a hyper step needs something to learn"
    set_rates(optimizer, hyper_progress(state.progress, config, state.learning.begun))
    with held_fixed(state.network, not state.learning.active):
        found = _STEPS[config.hyper.estimator](state, optimizer, batches, config)
    state.learning.end_step(state.network)
    return found


def check_learning(model: Model, batches: Batches, config: FitConfig) -> None:
    """Raise an error before the first step for what would stop hyper steps after the burn-in."""
    own_part(batches)  # shards need data that can be read one by one
    if config.hyper.num_data is not None or config.hyper.estimator in ("running", "stochastic", "kernel"):
        batches.at(torch.arange(1, device="cpu"))  # so does a choice of M among them
    if config.hyper.estimator == "kernel":
        check_per_weight(model.prior)
    if config.hyper.estimator in ("running", "two_pass"):
        check_steps(batches, model.network, config)
    if config.hyper.estimator in ("running", "two_pass") or config.evaluation.num_evaluations:
        check_curvature(evaluated_curvature(filled_in(config, batches.num_data)), model.prior)


def check_steps(batches: Batches, network: nn.Module, config: FitConfig) -> None:
    """Raise an error if steps on the augmentation are too few for a variance, or have too few data for a share each."""
    natural = config.hyper.width_optimizer == "natural"
    if natural and config.hyper.num_steps < 2 and Move(network, config.hyper.max_width_change).parameters:
        raise StructureError(
            "Expected 'hyper.num_steps' to be at least 2, got 1: the variance between the steps scales that of the "
            "augmentation. Raise it, or freeze the augmentation."
        )
    size = step_size(config, batches.num_data)
    if size < place()[1] and batches.read is not None:
        raise StructureError(
            f"Expected steps on the augmentation to read at least one datum per process, got {size} for "
            f"{place()[1]} processes. Raise 'hyper.num_data', or lower 'hyper.num_steps'."
        )


def _running_steps(state: HyperState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the estimate of the running statistics, which the data of the steps update."""
    seed, model, curvature = hyper_seed(state, config), hyper_model(state, config), _curvature(config)
    if state.running is None:
        state.running = RunningStatistics.of(_factor_pass(model, chosen(batches, FIRST_DATA, seed), curvature, seed))
    statistics = state.running.scaled(batches.num_data)
    terms, cotangents = _prior_steps(state, optimizer, model, statistics, config)
    if cotangents is None:
        size, seed = data_per_step(config, batches.num_data), seed_for(seed, 0)
        part = _factor_pass(model, chosen(batches, size, seed), curvature, seed)
    else:
        parts = _model_steps(state, optimizer, batches, config, model, cotangents)
        part = over_processes(reduce(CurvatureStatistics.accumulate, parts))
    state.running = state.running.updated(part, config.hyper.decay)
    return evidence_record(terms, config.curvature, config.hyper.probes)


def _two_pass_steps(state: HyperState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the gradient of all data, whose statistics a pass over them computes."""
    model = hyper_model(state, config)
    statistics = _factor_pass(model, own_part(batches), _curvature(config), hyper_seed(state, config))
    terms, cotangents = _prior_steps(state, optimizer, model, statistics, config)
    if cotangents is not None:
        _model_steps(state, optimizer, batches, config, model, cotangents)
    return evidence_record(terms, config.curvature, config.hyper.probes)


def _prior_steps(
    state: HyperState, optimizer: Optimizer, model: Model, statistics: CurvatureStatistics, config: FitConfig
) -> tuple[EvidenceTerms, Cotangents | None]:
    """Steps on the prior: the terms before them, and the cotangents after them where there is more to learn."""
    learned = bool(model_hyperparameters(model))  # cotangents need eigenvectors, which steps on the prior do without
    decompose(statistics.curvature, joined_shifts(statistics.curvature, model), vectors=learned)
    terms = climb_prior(state, optimizer, partial(prior_gradient, model, statistics), config)
    return terms, curvature_cotangents(model, statistics, _curvature(config)) if learned else None


def _model_steps(
    state: HyperState, optimizer: Optimizer, batches: Batches, config: FitConfig, model: Model, cotangents: Cotangents
) -> list[CurvatureStatistics]:
    """Steps on augmentation and likelihood: the statistics of the data that each has read in this process."""
    move, parts = Move(state.network, state.learning.max_change), []
    natural = config.hyper.width_optimizer == "natural"
    for number in range(config.hyper.num_moves):
        seed = seed_for(hyper_seed(state, config), number)
        data = disjoint_sets(batches, config, cotangents.num_data, seed)
        held = move if natural else None
        found = [_minibatch_step(optimizer, model, part, cotangents, held, seed) for part in data[:-1]]
        move.bound()
        parts += [minibatch.statistics for minibatch in found]
        if move.parameters and natural:
            rate = cosine(*config.hyper.width_lr_range, hyper_progress(state.progress, config, state.learning.begun))
            gradients = [move.own(model_hyperparameters(model), minibatch.gradients) for minibatch in found]
            sizes = step_size(config, cotangents.num_data), cotangents.num_data
            state.learning.climb(move, gradients, sizes, rate)
    if move.parameters and natural:
        change = evidence_change(model, data[-1], cotangents, move, seed)
        kept = change.value >= -2 * change.error
        if not kept:
            move.undo(optimizer)
        state.learning.accept(kept, config.hyper.max_width_change)
    return parts


def _minibatch_step(
    optimizer: Optimizer, model: Model, data: Batches, cotangents: Cotangents, held: Move | None, seed: int
) -> SecondPass:
    """The gradient of M data, along which Adam has taken a step; without those parameters whose move is held."""
    found, parameters = model_gradient(model, data, cotangents, seed=seed), model_hyperparameters(model)
    check_finite(found.gradients)
    others = {
        name: entry for name, entry in found.gradients.items() if held is None or not held.moves(parameters[name])
    }
    climb(parameters, optimizer, others)
    return found


_STEPS: dict[str, Callable[[HyperState, Optimizer, Batches, FitConfig], Evidence]] = {
    "running": _running_steps,
    "two_pass": _two_pass_steps,
    "kernel": kernel_steps,
    "stochastic": stochastic_steps,
}


def step_size(config: FitConfig, num_data: int) -> int:
    """The number M of data that a step on the augmentation reads with "running" and "two_pass".

    The steps of a hyper step read disjoint data: the variance of their gradients is then the Fisher information for
    every M, and with M = N/`num_steps` their mean is the gradient of all data.
    """
    most = STEP_DATA if config.hyper.estimator == "running" else num_data
    return max(min(config.hyper.num_data or most, num_data // config.hyper.num_steps), 1)


def data_per_step(config: FitConfig, num_data: int) -> int:
    """The data that one hyper step reads with "running"."""
    return config.hyper.num_moves * config.hyper.num_steps * step_size(config, num_data)


@torch.no_grad()
def mean_log_likelihood(state: HyperState, batches: Batches, config: FitConfig) -> float:
    """The mean log-likelihood per datum of up to 1,000 data, with the samples of hyper steps.

    Arguments:
        state: The state.
        batches: All training data; this process reads its shard of those that are chosen.
        config: The settings.
    """
    model, seed, total, number = hyper_model(state, config), hyper_seed(state, config), 0.0, 0
    for batch in chosen(batches, FIRST_DATA, seed):
        total += float(model.likelihood.log_prob(outputs_of(model.network, batch, seed), batch.y))
        number += len(batch.x)
    sums = all_sum(torch.tensor([total, number], dtype=torch.float64, device="cpu"))
    return float(sums[0] / sums[1])


@torch.no_grad()
def _factor_pass(model: Model, batches: Batches, curvature: Curvature, seed: int) -> CurvatureStatistics:
    return curvature_pass(model, batches, curvature, seed=seed)


def chosen(batches: Batches, num_data: int, seed: int) -> Batches:
    """This process's shard of M data that all processes choose alike."""
    if num_data >= batches.num_data:
        return own_part(batches)
    positions = permutation(seed, batches.num_data, stream=Stream.SUBSET)[:num_data]
    return batches.at(own(positions))


def disjoint_sets(batches: Batches, config: FitConfig, num_data: int, seed: int) -> list[Batches]:
    """This process's shards of the disjoint sets of M data that the steps of a hyper step read, and of one more.

    The last set, on which the move is tested, is the first one again where too few data remain.

    Arguments:
        batches: All data.
        config: The settings.
        num_data: N, the number of all data.
        seed: The seed of the choice, alike in all processes.
    """
    num_steps, size = config.hyper.num_steps, step_size(config, num_data)
    if batches.read is None:
        parts = [_every(batches, number, num_steps) for number in range(num_steps)]
        return [*parts, parts[0]]
    order = permutation(seed, num_data, stream=Stream.SUBSET)
    starts = [number * size for number in range(num_steps + 1)]
    fits = [start if start + size <= num_data else 0 for start in starts]
    return [batches.at(own(order[start : start + size])) for start in fits]


def _every(batches: Batches, first: int, step: int) -> Batches:
    """Every `step`-th datum of an iterable of batches."""

    def stream() -> Iterator[IndexedBatch]:
        skip = first
        for batch in batches:
            if skip < len(batch.x):
                yield IndexedBatch(*(part[skip::step] for part in batch))
            skip = (skip - len(batch.x)) % step

    return Batches(None, 0, batches.batch_size, stream)


def _curvature(config: FitConfig) -> Curvature:
    """The choice of curvature of hyper steps; the settings have checked the names, and are filled in."""
    assert config.hyper.probes != "auto", "settings are filled in when a fit starts"
    return chosen_curvature(config, config.hyper.probes)
