r"""The two steps that training alternates: weights climb the log joint, hyperparameters the evidence.

.. math:: \theta \leftarrow \theta + \rho\, \nabla_\theta \big( \tfrac1B \log p(D_B|\theta,\eta) + \tfrac1N
    \log p(\theta|\delta) \big), \qquad (\eta, \delta) \leftarrow (\eta, \delta) + \rho'\, \nabla \log Z(\eta, \delta)

with ρ the optimizer's step. Both are sums over data, so each process adds its shard. Steps change the state they are
given, and return what a record keeps.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .._types import Probes, Resampling
from ..batches import Batches, IndexedBatch, outputs_of
from ..config import FitConfig
from ..curvature.passes import curvature_pass
from ..curvature.registry import KRON, Curvature, CurvatureName, joined_shifts
from ..distributed import all_sum, own, own_part, place
from ..errors import NumericalError
from ..evidence import EvidenceTerms, log_evidence
from ..hypergrad import HyperGradient, stochastic
from ..hypergrad.hyperparameters import gradients, model_hyperparameters
from ..hypergrad.partition import Partition, partition_gradient, partition_pass
from ..hypergrad.two_pass import curvature_cotangents, model_gradient, prior_gradient
from ..models import Model
from ..noise import Stream, fold, permutation
from ..records import Evidence
from .augerino import augerino_parameters, augerino_reward
from .learning_rates import clip_gradients, set_rates, units
from .schedule import EVALUATE, HYPER, WEIGHTS, hyper_progress, seed_for
from .state import FitState

BLOCK_DATA = 100  # M of the bounds, where none is given


def weight_step(state: FitState, batch: IndexedBatch, batch_size: int, num_data: int, config: FitConfig) -> None:
    """One step of the weights, and with "augerino" of the widths, on this process's shard of a batch.

    Arguments:
        state: The state, changed.
        batch: This process's shard of the batch; it may be empty.
        batch_size: The number of data in the whole batch.
        num_data: The number N of training data.
        config: The settings.
    """
    model, seed = state.model, seed_for(config.seed, WEIGHTS, state.epoch)
    weights = model.trained_weights
    joint = augerino_parameters(state.network) if config.hyper.estimator == "augerino" else {}
    with _own_noise(fold(fold(seed, state.step), place()[0]), batch.x.device):
        log_likelihood, gradients_of = _likelihood_gradients(model, batch, {**weights, **joint}, seed)
    means = {name: all_sum(entry) / batch_size for name, entry in gradients_of.items()}
    shifts = state.prior.trained_shifts()
    for name, weight in weights.items():
        pull = (shifts[name] * weight.flatten()).reshape(weight.shape).detach()
        weight.grad = pull / num_data - means[name]  # of minus the log joint: optimizers descend
    if config.weights.max_grad_norm is not None:
        measured = (
            units(state.weight_optimizer, state.prior)
            if config.weights.prior_scaled_lr
            else dict.fromkeys(weights, 1.0)
        )
        clip_gradients(weights, measured, config.weights.max_grad_norm)
    state.weight_optimizer.step()
    if joint and state.hyper_optimizer is not None:
        reward = augerino_reward(state.network, joint)
        _climb(joint, state.hyper_optimizer, {name: means[name] + reward[name] for name in joint})
    state.log_likelihood += float(all_sum(log_likelihood))
    state.num_seen += batch_size
    state.step += 1


def hyper_step(state: FitState, batches: Batches, config: FitConfig) -> Evidence:
    """One or several steps of the hyperparameters; the record is the estimate of the evidence before them.

    Arguments:
        state: The state, changed.
        batches: All training data; this process reads its shard.
        config: The settings.
    """
    optimizer = state.hyper_optimizer
    assert optimizer is not None, "a hyper step needs something to learn"
    set_rates(optimizer, hyper_progress(state.epoch, config))
    if config.hyper.estimator == "stochastic":
        return _stochastic_steps(state, optimizer, batches, config)
    if config.hyper.estimator == "kernel":
        return _kernel_steps(state, optimizer, batches, config)
    seed, curvature = seed_for(config.seed, HYPER, state.epoch), _curvature(config, config.hyper.probes)
    shard, parameters = own_part(batches), state.hyperparameters()
    model = replace(state.model, network=hyper_network(state.network, config))
    with torch.no_grad():
        statistics = curvature_pass(model, shard, curvature, seed=seed)
    learned = model_hyperparameters(model)
    if learned:  # cotangents will need the eigenvectors, which steps on the prior do without
        statistics.curvature.decompose(joined_shifts(statistics.curvature, model))
    first = _prior_steps(state, optimizer, partial(prior_gradient, model, statistics), config)
    if learned:
        cotangents = curvature_cotangents(model, statistics, curvature)
        for number in range(config.hyper.num_steps):
            step_seed = seed_for(seed, number)
            second = _chosen(batches, config.hyper.num_data, step_seed)
            _climb(parameters, optimizer, model_gradient(model, second, cotangents, seed=step_seed))
    return evidence_record(first, config.curvature, config.hyper.probes)


def evaluate(state: FitState, batches: Batches, config: FitConfig) -> Evidence:
    """The evidence, under the same noise and probes every time: states can be compared by it.

    With the estimator "kernel" it is a bound, over a partition and drawn outputs that are always the same.
    """
    if config.hyper.estimator == "kernel":
        model, partition = _partition(state, batches, config, seed_for(config.seed, EVALUATE))
        return _bound_record(partition_gradient(model, partition).terms, config)
    model = replace(state.model, network=hyper_network(state.network, config))
    curvature = _curvature(config, config.evaluation.probes)
    terms = log_evidence(model, own_part(batches), curvature, seed=seed_for(config.seed, EVALUATE))
    return evidence_record(terms, config.curvature, config.evaluation.probes)


def hyper_network(network: nn.Module, config: FitConfig) -> nn.Module:
    """The network with the number of samples that hyper steps and evaluations take; it shares all its parameters."""
    if config.hyper.num_samples is None or not isinstance(network, Resampling):
        return network
    # independent sets serve Kronecker factors alone
    return network.with_samples(config.hyper.num_samples, config.hyper.num_sets if config.curvature in KRON else 1)


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


def block_size(config: FitConfig, num_data: int) -> int:
    """The number M of data in a block of the estimators "kernel" and "stochastic"."""
    return min(config.hyper.num_data or BLOCK_DATA, num_data)


def _prior_steps(
    state: FitState, optimizer: Optimizer, gradient_of: Callable[[], HyperGradient], config: FitConfig
) -> EvidenceTerms:
    """Steps on the prior for one pass over the data; the terms are those before the first of them."""
    first: EvidenceTerms | None = None
    for _ in range(config.hyper.num_prior_steps):
        gradient = gradient_of()
        first = gradient.terms if first is None else first
        _climb(state.hyperparameters(), optimizer, gradient)
    assert first is not None, "there is at least one step on the prior"
    return first


def _kernel_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps of the prior along the bound of a partition of all data, and of all else along that of a minibatch each."""
    seed = seed_for(config.seed, HYPER, state.epoch)
    model, partition = _partition(state, batches, config, seed)
    gradient_of = partial(partition_gradient, model, partition)
    first = _prior_steps(state, optimizer, gradient_of, config)
    learned = model_hyperparameters(model)
    for number in range(config.hyper.num_steps if learned else 0):
        gradient = _minibatch_gradient(state, batches, config, seed_for(seed, number))
        _climb(state.hyperparameters(), optimizer, {name: gradient[name] for name in learned})
    return _bound_record(first, config)


def _partition(state: FitState, batches: Batches, config: FitConfig, seed: int) -> tuple[Model, Partition]:
    """The model, and the kernels of a random partition of all data; of its blocks each process takes its share."""
    model = replace(state.model, network=_bound_network(state, config))
    order = permutation(seed, batches.num_data, stream=Stream.SUBSET)
    rank, world = place()
    blocks = order.split(block_size(config, batches.num_data))[rank::world]
    return model, partition_pass(model, batches, blocks, seed=seed)


def _stochastic_steps(state: FitState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the bound of one minibatch each; every one moves the prior too."""
    records = []
    for number in range(config.hyper.num_steps):
        seed = seed_for(seed_for(config.seed, HYPER, state.epoch), number)
        gradient = _minibatch_gradient(state, batches, config, seed)
        records.append(_bound_record(gradient.terms, config))
        _climb(state.hyperparameters(), optimizer, gradient)
    return records[0]


def _minibatch_gradient(state: FitState, batches: Batches, config: FitConfig, seed: int) -> HyperGradient:
    """The gradient of the bound of M data of this process's shard, with one drawn output of each."""
    shard = own_part(batches)
    model = replace(state.model, network=_bound_network(state, config))
    return stochastic(model, shard, outputs="one", num_data=block_size(config, shard.num_data), seed=seed)


def _bound_record(terms: EvidenceTerms, config: FitConfig) -> Evidence:
    """The terms of a bound as numbers; those of blocks of another size are not to be compared with it."""
    return evidence_record(terms, "kernel", f"one output, blocks of {block_size(config, terms.num_data)}")


def _bound_network(state: FitState, config: FitConfig) -> nn.Module:
    """The network of hyper steps with samples in one set: two are for Kronecker factors, which the bound has not."""
    return hyper_network(state.network, config.replace(hyper={"num_sets": 1}))


def _likelihood_gradients(
    model: Model, batch: IndexedBatch, parameters: Mapping[str, nn.Parameter], seed: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """The log-likelihood of a shard, a sum, with its gradient; zeros for an empty shard."""
    if not len(batch.x):
        zeros = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        return torch.zeros((), dtype=torch.float64, device=batch.x.device), zeros
    outputs = outputs_of(model.network, batch, seed)
    model.likelihood.check(outputs, batch.y)
    log_likelihood = model.likelihood.log_prob(outputs, batch.y)
    return log_likelihood.detach().double(), gradients(log_likelihood, parameters)


@contextmanager
def _own_noise(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's global generators begun at the seed, and as they were afterwards: dropout draws from them."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _climb(parameters: Mapping[str, nn.Parameter], optimizer: Optimizer, gradient: Mapping[str, Tensor]) -> None:
    """One step upwards along the gradients that are given; the other parameters stay."""
    optimizer.zero_grad()
    for name, entry in gradient.items():
        if not bool(entry.isfinite().all()):
            raise NumericalError(
                f"The gradient of '{name}' is not finite. Lower its learning rate or that of the weights, or use "
                "float64."
            )
        parameters[name].grad = -entry
    optimizer.step()
    optimizer.zero_grad()


def _chosen(batches: Batches, num_data: int | None, seed: int) -> Batches:
    """This process's shard of M data that all processes choose alike, of all of them where M is None."""
    if num_data is None or num_data >= batches.num_data:
        return own_part(batches)
    positions = permutation(seed, batches.num_data, stream=Stream.SUBSET)[:num_data]
    return batches.at(own(positions))


def _curvature(config: FitConfig, probes: Probes) -> Curvature:
    """The choice of curvature; the settings have checked the names."""
    return Curvature(cast(CurvatureName, config.curvature), probes)
