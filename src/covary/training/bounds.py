"""Hyper steps along lower bounds of the evidence: the estimators "kernel" and "stochastic"."""

from dataclasses import replace
from functools import partial

from torch import nn
from torch.optim import Optimizer

from ..batches import Batches
from ..config import FitConfig
from ..distributed import own_part, place
from ..evidence import EvidenceTerms
from ..hypergrad import HyperGradient, stochastic
from ..hypergrad.hyperparameters import model_hyperparameters
from ..hypergrad.partition import Partition, partition_gradient, partition_pass
from ..models import Model
from ..noise import Stream, permutation
from ..records import Evidence
from .ascent import climb, climb_prior, evidence_record, hyper_network, hyper_seed
from .hyper_state import HyperState
from .schedule import seed_for
from .widths import Move

BLOCK_DATA = 100  # M of a block, where none is given


def kernel_steps(state: HyperState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps of the prior along the bound of a partition of all data, and of all else along that of a minibatch each."""
    seed = hyper_seed(state, config)
    model, partition = partition_of(state, batches, config, seed)
    terms = climb_prior(state, optimizer, partial(partition_gradient, model, partition), config)
    learned, move = model_hyperparameters(model), Move(state.network, state.learning.max_change)
    for number in range(config.hyper.num_steps if learned else 0):
        gradient = _minibatch_gradient(state, batches, config, seed_for(seed, number))
        climb(learned, optimizer, {name: gradient[name] for name in learned})
        move.bound()
    return bound_record(terms, config)


def stochastic_steps(state: HyperState, optimizer: Optimizer, batches: Batches, config: FitConfig) -> Evidence:
    """Steps along the bound of one minibatch each; every one moves the prior too."""
    records, move = [], Move(state.network, state.learning.max_change)
    for number in range(config.hyper.num_steps):
        gradient = _minibatch_gradient(state, batches, config, seed_for(hyper_seed(state, config), number))
        records.append(bound_record(gradient.terms, config))
        climb(state.hyperparameters(), optimizer, gradient)
        move.bound()
    return records[0]


def bound_record(terms: EvidenceTerms, config: FitConfig) -> Evidence:
    """The terms of a bound as numbers; those of blocks of another size are not to be compared with it."""
    return evidence_record(terms, "kernel", f"one output, blocks of {block_size(config, terms.num_data)}")


def block_size(config: FitConfig, num_data: int) -> int:
    """The number M of data in a block of the estimators "kernel" and "stochastic"."""
    return min(config.hyper.num_data or BLOCK_DATA, num_data)


def partition_of(state: HyperState, batches: Batches, config: FitConfig, seed: int) -> tuple[Model, Partition]:
    """The model, and the kernels of a random partition of all data; of its blocks each process takes its share."""
    model = replace(state.model, network=_bound_network(state, config))
    order = permutation(seed, batches.num_data, stream=Stream.SUBSET)
    rank, world = place()
    blocks = order.split(block_size(config, batches.num_data))[rank::world]
    return model, partition_pass(model, batches, blocks, seed=seed)


def _minibatch_gradient(state: HyperState, batches: Batches, config: FitConfig, seed: int) -> HyperGradient:
    """The gradient of the bound of M data of this process's shard, with one drawn output of each."""
    shard = own_part(batches)
    model = replace(state.model, network=_bound_network(state, config))
    return stochastic(model, shard, outputs="one", num_data=block_size(config, shard.num_data), seed=seed)


def _bound_network(state: HyperState, config: FitConfig) -> nn.Module:
    """The network of hyper steps with samples in one set: two are for Kronecker factors, which the bound has not."""
    return hyper_network(state.network, config.replace(hyper={"num_sets": 1}))
