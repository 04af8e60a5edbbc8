r"""Weight steps, which climb the log joint, and evaluations of the evidence.

.. math:: \theta \leftarrow \theta + \rho\, \nabla_\theta \big( \tfrac1B \log p(D_B|\theta,\eta) + \tfrac1N
    \log p(\theta|\delta) \big)

with ρ the optimizer's step. Both are sums over data, so each process adds its shard. Steps change the state they are
given.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .._types import SampleAveraging
from ..batches import Batches, IndexedBatch, outputs_of
from ..config import FitConfig
from ..distributed import all_sum_each, own_part, place
from ..errors import StructureError
from ..evidence import log_evidence
from ..hypergrad.hyperparameters import gradients
from ..hypergrad.partition import partition_gradient
from ..models import Model
from ..networks.compiled import compile_errors
from ..noise import fold
from ..records import Evidence
from .ascent import climb, evaluated_curvature, evaluated_network, evidence_record
from .augerino import augerino_parameters, augerino_reward
from .bounds import bound_record, partition_of
from .hyper_state import HyperState
from .learning_rates import clip_gradients, units
from .schedule import EVALUATE, WEIGHTS, seed_for
from .state import FitState


def weight_step(
    state: FitState, batch: IndexedBatch, batch_size: int, num_data: int, config: FitConfig, num_told: int = 0
) -> int:
    """Take one step of the weights, and with "augerino" of the widths, on this process's shard of a batch.

    Return `num_told` of all processes, which the message with their gradients carries.

    Arguments:
        state: The state, changed.
        batch: This process's shard of the batch; it may be empty.
        batch_size: The number of data in the whole batch.
        num_data: The number N of training data.
        config: The settings.
        num_told: The number of signals that asked this process to end.
    """
    model, seed = state.model, seed_for(config.seed, WEIGHTS, state.epoch)
    weights = model.trained_weights
    joint = augerino_parameters(state.network) if config.hyper.estimator == "augerino" else {}
    bf16 = config.weights.precision == "bf16"
    reduced = torch.autocast(batch.x.device.type, torch.bfloat16) if bf16 else nullcontext()
    with _own_noise(fold(fold(seed, state.step), place()[0]), batch.x.device), reduced:
        outputs = _outputs(state, batch, seed)
        log_likelihood, gradients_of = _likelihood_gradients(model, outputs, batch.y, {**weights, **joint})
    asked = log_likelihood.new_tensor(num_told)
    *sums, log_likelihood, asked = all_sum_each([*gradients_of.values(), log_likelihood, asked])
    means = {name: entry / batch_size for name, entry in zip(gradients_of, sums, strict=True)}
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
    if joint and state.hyper.optimizer is not None:
        reward = augerino_reward(state.network, joint)
        climb(joint, state.hyper.optimizer, {name: means[name] + reward[name] for name in joint})
    state.log_likelihood += float(log_likelihood)
    state.num_seen += batch_size
    state.step += 1
    return int(asked)


@torch.no_grad()
def check_last_batch(network: nn.Module, batches: Batches, batch_size: int) -> None:
    """Raise `StructureError` if a process gets one datum of the last batch where BatchNorm needs more.

    Arguments:
        network: The network in the modes of weight steps; it stays as it is.
        batches: All training data.
        batch_size: The number of data in a weight step.
    """
    last = batches.num_data % batch_size or batch_size
    if batches.read is None or last >= 2 * place()[1]:
        return
    one = batches.read(torch.zeros(1, dtype=torch.int64, device="cpu"))
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    arguments = {"index": one.identity, "seed": 0} if isinstance(network, SampleAveraging) else {}
    try:
        with _own_noise(0, one.x.device):
            functional_call(network, buffers, (one.x,), arguments)
    except ValueError as error:
        raise StructureError(
            "Expected a network that can take a weight step on one datum, which is all that a process gets of the last "
            f"batch of {batches.num_data} data with weights.batch_size={batch_size}, got: {error}. Change "
            "weights.batch_size, or call eval() on its BatchNorm before fit."
        ) from error


def evaluate(state: HyperState, batches: Batches, config: FitConfig) -> Evidence:
    """The evidence, under the same noise and probes every time: states can be compared by it.

    With the estimator "kernel" it is a bound, over a partition and drawn outputs that are always the same.
    """
    if config.hyper.estimator == "kernel":
        model, partition = partition_of(state, batches, config, seed_for(config.seed, EVALUATE))
        return bound_record(partition_gradient(model, partition).terms, config)
    model = replace(state.model, network=evaluated_network(state.network, config))
    curvature, seed = evaluated_curvature(config), seed_for(config.seed, EVALUATE)
    terms = log_evidence(model, own_part(batches), curvature, seed=seed)
    return evidence_record(terms, config.curvature, config.evaluation.probes)


def _outputs(state: FitState, batch: IndexedBatch, seed: int) -> Tensor:
    """Outputs for a shard, by the network as weight steps run it; none for an empty shard."""
    if not len(batch.x):
        return batch.x
    with nullcontext() if state.stepped is None else compile_errors():
        outputs = outputs_of(state.stepped or state.network, batch, seed)
    like = next(iter(state.model.trained_weights.values()))
    return outputs.to(like.dtype) if outputs.dtype == torch.bfloat16 else outputs  # of autocast


def _likelihood_gradients(
    model: Model, outputs: Tensor, targets: Tensor, parameters: Mapping[str, nn.Parameter]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The log-likelihood of a shard, a sum in the type of the weights, with its gradient; zeros for an empty shard."""
    like = next(iter(parameters.values())).detach()
    if not len(outputs):
        return like.new_zeros(()), {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    model.likelihood.check(outputs, targets)
    log_likelihood = model.likelihood.log_prob(outputs, targets)
    return log_likelihood.detach().to(like), gradients(log_likelihood, parameters)


@contextmanager
def _own_noise(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's global generators begun at the seed, and as they were afterwards: dropout draws from them."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
