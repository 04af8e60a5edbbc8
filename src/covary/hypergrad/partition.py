r"""The bound of a whole partition as a function of the prior alone: many steps on the prior for one pass over the data.

With one precision :math:`\delta_w` for each weight w the tangent kernel is :math:`K = \sum_w K_w / \delta_w`, and
:math:`K_w`, the kernel of w at precision 1, does not depend on the prior. Kept for every block b of a partition of the
data, they give the bound of `stochastic.py`

.. math:: \log Z \ge \log p(D|\theta) + \log p(\theta) + \tfrac P2 \log 2\pi - \tfrac12 \log|\delta|
    - \tfrac c2 \sum_b \log\Big|I + \sum_w K_{wb} / \delta_w\Big|

and its gradient for any prior, for one Cholesky factor per block. Either c = 1, with all columns of the root of Λ, or
c = C, with one drawn for each datum; the right side is then the mean over draws. Dependence between layers, which
Kronecker factors ignore, is kept; dependence between data of different blocks is ignored, which loses far less where
there are few data and many weights.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..batches import Batches
from ..curvature.kernel import weight_kernels
from ..curvature.passes import captured_batch, check_model
from ..errors import StructureError
from ..evidence.kernel import joined_batch
from ..likelihoods import given
from ..linalg import Dense
from ..models import Model
from ..priors import Prior
from .hyperparameters import HyperGradient
from .stochastic import Estimate, Outputs, bound_gradients, bound_terms, check_outputs, chosen_probes, draw_outputs


class Partition(NamedTuple):
    r"""The statistics of this process's data that the bound needs, for any prior."""

    names: tuple[str, ...]  # the weights w
    kernels: tuple[Float[Tensor, "_ _ _"], ...]  # for each block the kernels of these weights, in that order
    factor: int  # how many columns of the root one row stands for, c
    log_likelihood: Float[Tensor, ""]  # log p(D | θ)
    num_data: int


def check_per_weight(prior: Prior) -> None:
    """Raise `StructureError` for a prior that has several precisions within one weight."""
    if prior.structure == "diagonal":
        raise StructureError(
            "Expected a prior with one precision by weight, got a diagonal one. Use Prior(structure='layerwise') or "
            "'scalar', or the estimator 'stochastic'."
        )


@torch.no_grad()
def partition_pass(
    model: Model, batches: Batches, blocks: Iterable[Int[Tensor, " _"]], outputs: Outputs = "one", *, seed: int = 0
) -> Partition:
    """The kernels of a partition, one pass of a block in memory at a time beside the kernels.

    These are W · M² numbers for each block with one output, and W · (M C)² with all.

    Arguments:
        batches: The data, which can be read one by one.
        blocks: The positions of the data in each block; under a process group those of this process, and the sums of
            all are those of the whole partition.
        outputs: "one" drawn column of the root of Λ for each datum, or "all".
        seed: The seed of the augmentation's noise and of the drawn outputs.
    """
    check_outputs(outputs)
    check_model(model, batches)
    weights = model.weights
    kernels, factor, num_data = [], 1, 0
    log_likelihood = torch.zeros((), dtype=torch.float64, device=next(iter(weights.values())).device)
    for positions in blocks:
        batch = joined_batch(batches.at(positions))
        captured = captured_batch(model, weights, batch, seed)
        drawn = draw_outputs(captured, batch, seed) if outputs == "one" else None
        probes, factor = chosen_probes(given(model.likelihood, batch.y), captured.outputs, drawn)
        kernels.append(weight_kernels(captured, probes))
        log_likelihood = log_likelihood + model.likelihood.log_prob(captured.outputs, batch.y).double()
        num_data += len(positions)
    return Partition(tuple(weights), tuple(kernels), factor, log_likelihood, num_data)


@torch.enable_grad()
def partition_gradient(model: Model, partition: Partition) -> HyperGradient:
    """The gradient of the bound with respect to the prior alone, with its terms: no pass over data.

    Arguments:
        model: The model of the pass; its prior is any but a diagonal one.
        partition: The kernels of this process's blocks.
    """
    check_per_weight(model.prior)
    if model.prior.names != partition.names:
        raise StructureError(
            f"Expected the weights of the pass, {', '.join(partition.names)}, got {', '.join(model.prior.names)}. Pass "
            "the model that the pass was made with."
        )
    shifts = model.prior.shifts()
    scales = torch.stack([shifts[name] for name in partition.names]).reciprocal()
    log_ratio = scales.new_zeros((), dtype=torch.float64)
    for number, kernels in enumerate(partition.kernels):
        # in double precision: the factor of a small matrix costs nothing, and hundreds of them are added up; there
        # the halves of a matrix made in single precision are no mirror images any more
        kernel = torch.einsum("w,wij->ij", scales.to(kernels.dtype), kernels).double()
        block = Dense((kernel + kernel.mT) / 2, name=f"kernel of block {number}")
        log_ratio = log_ratio + block.logdet(torch.ones_like(kernel[0]))
    estimate = Estimate(partition.log_likelihood, partition.factor * log_ratio)
    return HyperGradient(bound_gradients(model, estimate, {}), bound_terms(model, estimate, partition.num_data))
