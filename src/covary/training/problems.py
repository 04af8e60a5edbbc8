"""What makes a run worthless: a collapse, a divergence, gradients that are zero, terms that are not finite.

A problem is a sentence in the state, the record, the report and the terminal, where it is an error with exit code 1.
"""

import math

import torch
from torch import Tensor

from ..batches import Batches, IndexedBatch, outputs_of
from ..config import FitConfig
from ..errors import NumericalError
from ..hypergrad.hyperparameters import gradients
from ..records import Evidence
from .constant import beats_constant, has_collapsed, has_diverged, is_constant
from .schedule import EVALUATE, dead_epochs, seed_for
from .state import FitState

FEW_DATA = 400  # below which the evidence is not compared with that of a constant prediction
TERMS = ("log_likelihood", "log_prior", "log_volume")


def problem_of_epoch(state: FitState, batches: Batches, config: FitConfig, log_likelihood: float) -> str | None:
    """Why training should end after this epoch; None where all is well, or for Augerino, which is a baseline.

    Arguments:
        state: The state, the epoch counted, its record not yet in the history.
        batches: The training data.
        config: The settings.
        log_likelihood: The mean log-likelihood per datum of the epoch.
    """
    if not math.isfinite(log_likelihood):
        said = _not_finite(f"The log-likelihood of epoch {state.epoch}", log_likelihood)
        if state.best is None:  # nothing to keep
            raise NumericalError(said)
        return said
    if config.hyper.estimator == "augerino":
        return None
    past = [epoch.log_likelihood for epoch in state.history] + [log_likelihood]
    dead = dead_epochs(config, state.hyper.num_data)
    if len(past) >= dead and all(has_diverged(value, state.hyper.constant, state.untrained) for value in past[-dead:]):
        return _diverged(state, log_likelihood)
    # with noise that is still to be learned, a good fit may differ from a constant by hardly a nat
    told = not state.learns_likelihood and has_collapsed(past, state.hyper.constant, dead)
    dull = has_collapsed(past, state.hyper.constant, 1) and state.epoch > 1
    if told or (dull and _is_constant(state, batches, config)):
        return (
            f"The network has collapsed: its log-likelihood per datum, {log_likelihood:.4f}, is no better than "
            f"that of a constant prediction, {state.hyper.constant:.4f}. Training stopped in epoch {state.epoch}. "
            "Lower weights.lr, or set weights.warmup_epochs or weights.max_grad_norm."
        )
    return None


def finite_evidence(state: FitState, evidence: Evidence | None) -> Evidence | None:
    """The evidence; None, and a problem of the state, where one of its terms is not finite: no record holds those."""
    for term in TERMS if evidence is not None else ():
        value = getattr(evidence, term)
        if not math.isfinite(value):
            state.problem = _not_finite(f"The term '{term}' of the evidence in epoch {state.epoch}", value)
            return None
    return evidence


def problem_of_run(state: FitState, batches: Batches, config: FitConfig) -> str | None:
    """Why what was learned cannot be trusted; None where there is no reason not to.

    Arguments:
        state: The state, its modules as they are to be kept.
        batches: The training data.
        config: The settings.
    """
    if state.problem is not None or state.best is None or config.hyper.estimator == "augerino":
        return state.problem
    evidence, log_likelihood = state.best.evidence, state.best.log_likelihood
    if evidence is not None:
        log_likelihood = evidence.log_likelihood / evidence.num_data
    if has_diverged(log_likelihood, state.hyper.constant, state.untrained):
        return _diverged(state, log_likelihood)
    if not beats_constant(log_likelihood, state.hyper.constant) and _has_no_gradient(state, batches, config):
        return (
            "The gradient of the log-likelihood is zero in every weight, so nothing was learned: every unit of a layer "
            "may be off, or the outputs do not depend on the weights. Check the network, or start from other weights."
        )
    if evidence is None or state.hyper.learning.begun is None or state.hyper.num_data < FEW_DATA:
        return None  # of few data, KFAC puts too high a price on every network
    found, constant = evidence.log_evidence / evidence.num_data, state.hyper.constant
    if found < constant:
        return (
            f"The log evidence per datum, {found:.4f}, is below that of a constant prediction, {constant:.4f}: these "
            "data do not support the widths that were learned. Use more data, more epochs or a smaller network."
        )
    return None


@torch.no_grad()
def log_likelihood_of(state: FitState, batch: IndexedBatch, config: FitConfig) -> float:
    """The mean log-likelihood per datum of a batch, the network as it is."""
    return float(state.likelihood.log_prob(_outputs(state, batch, config), batch.y)) / len(batch.x)


@torch.no_grad()
def _is_constant(state: FitState, batches: Batches, config: FitConfig) -> bool:
    """Whether the outputs of a batch do not depend on its inputs."""
    return is_constant(_outputs(state, next(iter(batches)), config))


def _has_no_gradient(state: FitState, batches: Batches, config: FitConfig) -> bool:
    """Whether the gradient of the log-likelihood of a batch is exactly zero in every weight."""
    batch, weights = next(iter(batches)), state.model.trained_weights
    with torch.enable_grad():
        log_likelihood = state.likelihood.log_prob(_outputs(state, batch, config), batch.y)
        found = gradients(log_likelihood, weights)
    return not any(bool(entry.any()) for entry in found.values())


def _outputs(state: FitState, batch: IndexedBatch, config: FitConfig) -> Tensor:
    """The outputs of one batch; equal in all processes."""
    return outputs_of(state.network, batch, seed_for(config.seed, EVALUATE))


def _diverged(state: FitState, log_likelihood: float) -> str:
    return (
        f"Training has diverged: the log-likelihood per datum, {log_likelihood:.4g}, is below that of the untrained "
        f"network, {state.untrained:.4g}, and that of a constant prediction, {state.hyper.constant:.4g}. It ended in "
        f"epoch {state.epoch}. Lower weights.lr, or set weights.max_grad_norm."
    )


def _not_finite(what: str, value: float) -> str:
    return f"{what} is {value}. Training stopped. Lower weights.lr, or train in float64."
