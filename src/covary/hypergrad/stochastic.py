r"""The gradient of a lower bound of the evidence from one minibatch, without a pass over all data.

The rows of the tangent kernel K are pairs of a datum and a column of the root of Λ. The diagonal blocks of a
positive definite matrix have the larger determinant, so for any partition of the rows into blocks b
:math:`\sum_b \log|I + K_{bb}| \ge \log|I + K|`, and blocks that merge tighten it. With B one of a random partition
of the N data into minibatches of M,

.. math:: \log Z \ge \mathbb E_B \Big[ \tfrac NM \log p(D_B|\theta) + \log p(\theta) + \tfrac P2 \log 2\pi
    - \tfrac12 \log|\delta| - \tfrac12 \tfrac NM \log|I + K_B| \Big],

where one minibatch gives the inside and its derivative (Immer et al. 2023, Theorem 2). With one random column
:math:`c_n` per datum, the M rows :math:`(n, c_n)` are one of C blocks of the rows of B (block j has the columns
:math:`(c_n + j) \bmod C`), so :math:`C \log|I + K_\text{one}|` stands for a looser bound. That needs a column of the
root: with the diagonal entry :math:`p_c(1-p_c)` of Λ instead, the rows are not rows of K, and the bound can fail.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._text import require_choice
from ..batches import Data, IndexedBatch, as_batches
from ..curvature.capture import Captured
from ..curvature.passes import captured_batch, check_model, joined, root_probes
from ..curvature.registry import Curvature
from ..distributed import all_sum, all_sum_number
from ..errors import StructureError
from ..evidence import EvidenceTerms
from ..evidence.kernel import joined_batch, kernel_log_ratio
from ..evidence.terms import log_volume, prior_log_det
from ..likelihoods import Likelihood, given
from ..models import Model, as_model
from ..noise import Stream, uniform
from ..priors import Prior
from .hyperparameters import HyperGradient, detached, gradients, model_hyperparameters, prior_hyperparameters, summed

Estimator = Literal["kernel", "kron"]
Outputs = Literal["all", "one"]


@torch.enable_grad()
def stochastic(
    model: nn.Module | Model,
    data: Data,
    estimator: Estimator = "kernel",
    *,
    outputs: Outputs = "all",
    num_data: int = 100,
    seed: int = 0,
) -> HyperGradient:
    r"""The gradient of a bound of :math:`\log Z` from M data, by hyperparameter name; `.terms` has the bound.

    Estimator "kernel" is unbiased over minibatches and drawn outputs, in value and derivative, for a lower bound of
    the evidence with full curvature; all N data and all outputs give that evidence itself. "kron" scales the
    log-ratio of the KFAC of the M data by N/M: an estimate without that guarantee. The weights are held fixed.

    Under an initialized `torch.distributed` process group each process passes its shard, draws M data of it, and gets
    the gradient of all; shards are one more partition.

    Arguments:
        model: The model, or a network; call `eval()` first if it has `BatchNorm` or `Dropout`. Any prior
            with "kernel", all but a diagonal one with "kron".
        data: A pair of tensors or a `Dataset`.
        estimator: "kernel" or "kron".
        outputs: "all" columns of the root of Λ, or "one" drawn for each datum: one backward pass instead of C, for a
            looser bound ("kernel") or a noisier factor ("kron").
        num_data: M, the size of the minibatch.
        seed: The seed of the minibatch, of the drawn outputs and of the augmentation's noise; a new one each step.

    Example:
        >>> import torch
        >>> from covary import hypergrad
        >>> data = torch.randn(50, 4), torch.arange(50) % 3
        >>> gradient = hypergrad.stochastic(torch.nn.Linear(4, 3), data, outputs="one", num_data=10, seed=1)
        >>> gradient.terms.num_data
        50
    """
    model = as_model(model)
    everything = as_batches(data).matching(model.network)
    check_estimator(estimator, outputs, model.prior)
    batch = joined_batch(everything.subset(num_data, seed))
    check_model(model, as_batches(tuple(batch)))
    # where the prior alone is learned, nothing is differentiated through the pass
    with torch.set_grad_enabled(bool(model_hyperparameters(model))):
        captured = captured_batch(model, model.weights, batch, seed)
    drawn = draw_outputs(captured, batch, seed) if outputs == "one" else None
    estimate = minibatch_estimate(model, captured, batch.y, estimator, drawn)
    whole = estimate.scaled(everything.num_data / num_data)
    terms = bound_terms(model, whole, everything.num_data)
    if estimator == "kron":
        terms = terms._replace(structures=dict(captured.structures))
    return HyperGradient(bound_gradients(model, whole, model_hyperparameters(model)), terms)


def check_estimator(estimator: object, outputs: object, prior: Prior) -> None:
    """Raise `StructureError` if these choices are unknown or exclude each other."""
    require_choice("an estimator", estimator, get_args(Estimator))
    check_outputs(outputs)
    if estimator == "kron" and prior.structure == "diagonal":
        raise StructureError(
            "A diagonal prior with estimator 'kron' has no closed-form log-determinant. Use estimator='kernel', or "
            "Prior(structure='layerwise') or 'scalar' with 'kron'."
        )


def check_outputs(outputs: object) -> None:
    """Raise `StructureError` for anything but "all" and "one"."""
    require_choice("outputs", outputs, get_args(Outputs))


class Estimate(NamedTuple):
    r"""The estimate from a minibatch, with its graph."""

    log_likelihood: Float[Tensor, ""]  # log p(D_B | θ), of the block
    log_ratio: Float[Tensor, ""]  # log|H_B + δ| − log|δ|, or its estimate

    def scaled(self, factor: float) -> "Estimate":
        """The estimate for that many times as many data."""
        return Estimate(factor * self.log_likelihood, factor * self.log_ratio)


def minibatch_estimate(
    model: Model, captured: Captured, targets: Tensor, estimator: Estimator, drawn: Int[Tensor, " M"] | None
) -> Estimate:
    """The estimate of one captured minibatch, before it is scaled to all data.

    Arguments:
        estimator: "kernel" or "kron".
        drawn: The output of each datum that stands for all C, or None for all.
    """
    log_likelihood = model.likelihood.log_prob(captured.outputs, targets)
    probes, factor = chosen_probes(given(model.likelihood, targets), captured.outputs, drawn)
    if estimator == "kernel":
        return Estimate(log_likelihood, factor * kernel_log_ratio(model, captured, probes))
    # C v vᵀ has expectation Λ
    curvature = joined(Curvature().blocks(captured, (factor**0.5 * v for v in probes)), captured.weights)
    return Estimate(log_likelihood, curvature.logdet(model.prior.shifts()).double() - prior_log_det(model))


def chosen_probes(
    likelihood: Likelihood, outputs: Float[Tensor, "M C"], drawn: Int[Tensor, " M"] | None
) -> tuple[Iterable[Float[Tensor, "M C"]], int]:
    """Columns of the root of Λ that stand for all C, and for how many each stands: all for themselves, one for C.

    Arguments:
        drawn: The output of each datum that stands for all, or None for all.
    """
    if drawn is None:
        return root_probes(likelihood, outputs, None), 1
    chosen = nn.functional.one_hot(drawn, outputs.shape[1]).to(outputs)
    return iter([likelihood.root_product(outputs, chosen)]), outputs.shape[1]


def draw_outputs(captured: Captured, batch: IndexedBatch, seed: int) -> Int[Tensor, " M"]:
    """One output for each datum, uniform, a function of (seed, identity)."""
    noise = uniform(seed, batch.identity, stream=Stream.CURVATURE, dtype=torch.float64)
    return (captured.outputs.shape[1] * noise).long()


def bound_terms(model: Model, estimate: Estimate, num_data: int) -> EvidenceTerms:
    """The terms of the bound as plain numbers.

    Arguments:
        estimate: The estimate from the data of this process; summed over processes here.
    """
    log_det = prior_log_det(model) + all_sum(estimate.log_ratio)
    terms = EvidenceTerms(
        log_likelihood=all_sum(estimate.log_likelihood),
        log_prior=_log_prior(model),
        log_volume=log_volume(log_det, model.prior.num_params),
        gradient_norm=None,
        mode_correction=None,
        num_data=all_sum_number(num_data),
        structures=dict.fromkeys(model.prior.names, "kernel"),
    )
    return detached(terms)


def bound_gradients(model: Model, estimate: Estimate, inner: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The gradient of all processes: one derivative through the estimate, and the prior's terms counted once.

    Arguments:
        estimate: The estimate from the data of this process, with its graph.
        inner: The hyperparameters beside the prior's that the estimate depends on.
    """
    outer = prior_hyperparameters(model.prior)
    total = summed(gradients(estimate.log_likelihood - 0.5 * estimate.log_ratio, {**inner, **outer}))
    for name, gradient in gradients(_log_prior(model) - 0.5 * prior_log_det(model), outer).items():
        total[name] = total[name] + gradient
    return total


def _log_prior(model: Model) -> Float[Tensor, ""]:
    return model.prior.log_density({name: weight.detach() for name, weight in model.weights.items()})
