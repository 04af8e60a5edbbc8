r"""Hyper steps: the hyperparameters climb the evidence, with the weights held fixed.

A hyper step has several gradients of log Z in the prior, from the statistics of the curvature, and several in
augmentation and likelihood, from M data each. With the estimator "running" these data also update the statistics
(`hypergrad.running`), so that no step reads all data; with "two_pass" a pass over all data computes them anew. How far
widths move at once is bounded (`training.widths`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .._types import Resampling
from ..batches import Batches, IndexedBatch
from ..config import FitConfig
from ..curvature.passes import CurvatureStatistics, curvature_pass
from ..curvature.registry import KRON, Curvature, CurvatureName, joined_shifts
from ..distributed import own, own_part, place
from ..errors import NumericalError, StructureError
from ..evidence import EvidenceTerms
from ..hypergrad import HyperGradient, RunningStatistics, stochastic
from ..hypergrad.hyperparameters import model_hyperparameters
from ..hypergrad.partition import Partition, partition_gradient, partition_pass
from ..hypergrad.two_pass import Cotangents, SecondPass, curvature_cotangents, model_gradient, prior_gradient
from ..models import Model
from ..noise import Stream, permutation
from ..records import Evidence
from .learning_rates import set_rates
from .schedule import HYPER, cosine, hyper_progress, seed_for
from .state import FitState
from .widths import Move, evidence_change, held_fixed

BLOCK_DATA = 100  # M of the bounds, where none is given
STEP_DATA = 32  # M of a step on the augmentation with running statistics
FIRST_DATA = 1000  # data of the first running statistics


def hyper_step(state: FitState, batches: Batches, config: FitConfig) -> Evidence:
    """One or several steps of the hyperparameters; the record is the estimate of the evidence before them.

    Arguments:
        state: The state, changed.
        batches: All training data; this process reads its shard.
        config: The settings.
    """
    optimizer = state.hyper_optimizer
    assert optimizer is not None, "a hyper step needs something to learn"
    set_rates(optimizer, hyper_progress(state.progress, config, state.learning.begun))
    with held_fixed(state.network, not state.learning.active):
        found = _STEPS[config.hyper.estimator](state, optimizer, batches, config)
    state.learning.end_step(state.network)
    return found


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


def _running_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the estimate of the running statistics, which the data of the steps update."""
    seed, model, curvature = _hyper_seed(state, config), hyper_model(state, config), _curvature(config)
    if state.running is None:
        state.running = RunningStatistics.of(_factor_pass(model, _chosen(batches, FIRST_DATA, seed), curvature, seed))
    statistics = state.running.scaled(batches.num_data)
    terms, cotangents = _prior_steps(state, optimizer, model, statistics, config)
    if cotangents is None:
        size, seed = data_per_step(config, batches.num_data), seed_for(seed, 0)
        parts = [_factor_pass(model, _chosen(batches, size, seed), curvature, seed)]
    else:
        parts = _model_steps(state, optimizer, batches, config, model, cotangents)
    decays = [config.hyper.decay] + [1.0] * (len(parts) - 1)
    for part, decay in zip(parts, decays, strict=True):
        state.running = state.running.updated(part, decay)
    return evidence_record(terms, config.curvature, config.hyper.probes)


def _two_pass_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the gradient of all data, whose statistics a pass over them computes."""
    model = hyper_model(state, config)
    statistics = _factor_pass(model, own_part(batches), _curvature(config), _hyper_seed(state, config))
    terms, cotangents = _prior_steps(state, optimizer, model, statistics, config)
    if cotangents is not None:
        _model_steps(state, optimizer, batches, config, model, cotangents)
    return evidence_record(terms, config.curvature, config.hyper.probes)


def _prior_steps(
    state: FitState, optimizer: Optimizer, model: Model, statistics: CurvatureStatistics, config: FitConfig
) -> tuple[EvidenceTerms, Cotangents | None]:
    """Steps on the prior: the terms before them, and the cotangents after them where there is more to learn."""
    learned = model_hyperparameters(model)
    if learned:  # cotangents will need the eigenvectors, which steps on the prior do without
        statistics.curvature.decompose(joined_shifts(statistics.curvature, model))
    terms = _climb_prior(state, optimizer, partial(prior_gradient, model, statistics), config)
    return terms, curvature_cotangents(model, statistics, _curvature(config)) if learned else None


def _model_steps(
    state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig, model: Model, cotangents: Cotangents
) -> list[CurvatureStatistics]:
    """Steps on augmentation and likelihood: the statistics of the data that each has read."""
    move, parts = Move(state.network, state.learning.max_change), []
    natural = config.hyper.width_optimizer == "natural"
    for number in range(config.hyper.num_moves):
        seed = seed_for(_hyper_seed(state, config), number)
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


def _kernel_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps of the prior along the bound of a partition of all data, and of all else along that of a minibatch each."""
    seed = _hyper_seed(state, config)
    model, partition = partition_of(state, batches, config, seed)
    terms = _climb_prior(state, optimizer, partial(partition_gradient, model, partition), config)
    learned, move = model_hyperparameters(model), Move(state.network, state.learning.max_change)
    for number in range(config.hyper.num_steps if learned else 0):
        gradient = _minibatch_gradient(state, batches, config, seed_for(seed, number))
        climb(learned, optimizer, {name: gradient[name] for name in learned})
        move.bound()
    return bound_record(terms, config)


def _stochastic_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the bound of one minibatch each; every one moves the prior too."""
    records, move = [], Move(state.network, state.learning.max_change)
    for number in range(config.hyper.num_steps):
        gradient = _minibatch_gradient(state, batches, config, seed_for(_hyper_seed(state, config), number))
        records.append(bound_record(gradient.terms, config))
        climb(state.hyperparameters(), optimizer, gradient)
        move.bound()
    return records[0]


_STEPS: dict[str, Callable[[FitState, Optimizer, Batches, FitConfig], Evidence]] = {
    "running": _running_steps,
    "two_pass": _two_pass_steps,
    "kernel": _kernel_steps,
    "stochastic": _stochastic_steps,
}


def climb(parameters: Mapping[str, nn.Parameter], optimizer: Optimizer, gradient: Mapping[str, Tensor]) -> None:
    """One step upwards along the gradients that are given; the other parameters stay."""
    optimizer.zero_grad()
    check_finite(gradient)
    for name, entry in gradient.items():
        parameters[name].grad = -entry
    optimizer.step()
    optimizer.zero_grad()


def check_finite(gradient: Mapping[str, Tensor]) -> None:
    """Raise `NumericalError` for a gradient that is not finite."""
    for name, entry in gradient.items():
        if not bool(entry.isfinite().all()):
            raise NumericalError(
                f"The gradient of '{name}' is not finite. Lower its learning rate or that of the weights, or use "
                "float64."
            )


def hyper_model(state: FitState, config: FitConfig) -> Model:
    """The model with the network of hyper steps."""
    return replace(state.model, network=hyper_network(state.network, config))


def hyper_network(network: nn.Module, config: FitConfig) -> nn.Module:
    """The network with the number of samples that hyper steps take; it shares all its parameters."""
    return _resampled(network, config.hyper.num_samples, config)


def evaluated_network(network: nn.Module, config: FitConfig) -> nn.Module:
    """The network with the number of samples that evaluations take; it shares all its parameters."""
    return _resampled(network, config.evaluation.num_samples, config)


def evaluated_curvature(config: FitConfig) -> Curvature:
    """The choice of curvature of evaluations; the settings have checked the names, and are filled in."""
    assert config.evaluation.probes != "auto", "settings are filled in when a fit starts"
    return Curvature(cast(CurvatureName, config.curvature), config.evaluation.probes)


def _resampled(network: nn.Module, num_samples: int | None, config: FitConfig) -> nn.Module:
    """The network with another number of samples, in sets as hyper steps have them where that divides it."""
    if not isinstance(network, Resampling):
        return network
    number = num_samples or cast(int, getattr(network, "num_samples", 1))
    # independent sets are used for Kronecker factors alone
    num_sets = config.hyper.num_sets if config.curvature in KRON else 1
    return network.with_samples(number, num_sets if number % num_sets == 0 else 1)


def evidence_record(terms: EvidenceTerms, curvature: str, probes: int | str) -> Evidence:
    """The terms as numbers."""
    return Evidence(
        log_likelihood=float(terms.log_likelihood),
        log_prior=float(terms.log_prior),
        log_volume=float(terms.log_volume),
        log_evidence=float(terms.log_evidence),
        num_data=terms.num_data,
        curvature=curvature,
        probes=str(probes),
        gradient_norm=None if terms.gradient_norm is None else float(terms.gradient_norm),
    )


def bound_record(terms: EvidenceTerms, config: FitConfig) -> Evidence:
    """The terms of a bound as numbers; those of blocks of another size are not to be compared with it."""
    return evidence_record(terms, "kernel", f"one output, blocks of {block_size(config, terms.num_data)}")


def block_size(config: FitConfig, num_data: int) -> int:
    """The number M of data in a block of the estimators "kernel" and "stochastic"."""
    return min(config.hyper.num_data or BLOCK_DATA, num_data)


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


def partition_of(state: FitState, batches: Batches, config: FitConfig, seed: int) -> tuple[Model, Partition]:
    """The model, and the kernels of a random partition of all data; of its blocks each process takes its share."""
    model = replace(state.model, network=_bound_network(state, config))
    order = permutation(seed, batches.num_data, stream=Stream.SUBSET)
    rank, world = place()
    blocks = order.split(block_size(config, batches.num_data))[rank::world]
    return model, partition_pass(model, batches, blocks, seed=seed)


def _climb_prior(
    state: FitState, optimizer: Optimizer, gradient_of: Callable[[], HyperGradient], config: FitConfig
) -> EvidenceTerms:
    """Steps on the prior for one pass over the data; the terms are those before the first of them."""
    first: EvidenceTerms | None = None
    for _ in range(config.hyper.num_prior_steps):
        gradient = gradient_of()
        first = gradient.terms if first is None else first
        climb(state.hyperparameters(), optimizer, gradient)
    assert first is not None, "there is at least one step on the prior"
    return first


@torch.no_grad()
def _factor_pass(model: Model, batches: Batches, curvature: Curvature, seed: int) -> CurvatureStatistics:
    return curvature_pass(model, batches, curvature, seed=seed)


def _minibatch_gradient(state: FitState, batches: Batches, config: FitConfig, seed: int) -> HyperGradient:
    """The gradient of the bound of M data of this process's shard, with one drawn output of each."""
    shard = own_part(batches)
    model = replace(state.model, network=_bound_network(state, config))
    return stochastic(model, shard, outputs="one", num_data=block_size(config, shard.num_data), seed=seed)


def _bound_network(state: FitState, config: FitConfig) -> nn.Module:
    """The network of hyper steps with samples in one set: two are for Kronecker factors, which the bound has not."""
    return hyper_network(state.network, config.replace(hyper={"num_sets": 1}))


def _chosen(batches: Batches, num_data: int, seed: int) -> Batches:
    """This process's shard of M data that all processes choose alike."""
    if num_data >= batches.num_data:
        return own_part(batches)
    positions = permutation(seed, batches.num_data, stream=Stream.SUBSET)[:num_data]
    return batches.at(own(positions))


def disjoint_sets(batches: Batches, config: FitConfig, num_data: int, seed: int) -> list[Batches]:
    """This process's shards of the disjoint sets of M data that the steps of a hyper step read, and of one more.

    The last set, on which the move is tested, is the first one again where too few data are left.

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


def _hyper_seed(state: FitState, config: FitConfig) -> int:
    return seed_for(config.seed, HYPER, state.learning.num_steps)


def _curvature(config: FitConfig) -> Curvature:
    """The choice of curvature of hyper steps; the settings have checked the names, and are filled in."""
    assert config.hyper.probes != "auto", "settings are filled in when a fit starts"
    return Curvature(cast(CurvatureName, config.curvature), config.hyper.probes)
