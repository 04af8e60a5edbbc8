r"""The bound of a whole partition as a function of the prior alone: many steps on the prior for one pass over the data.

With one precision :math:`\delta_w` for each weight w the tangent kernel is :math:`K = \sum_w K_w / \delta_w`, and
:math:`K_w`, the kernel of w at precision 1, does not depend on the prior. Kept for every block b of a partition of the
data, they give the bound of `bound.py`

.. math:: \log Z \ge \log p(D|\theta) + \log p(\theta) + \tfrac P2 \log 2\pi - \tfrac12 \log|\delta|
    - \tfrac c2 \sum_b \log\Big|I + \sum_w K_{wb} / \delta_w\Big|

and its gradient for any prior, at the price of a Cholesky factor for each block. Either c = 1, with all columns of the
root of Λ, or c = C, with one drawn for each datum; the right side is then the mean over draws. Weights of different
layers are as dependent here as they are in H, which Kronecker factors take to be independent; data of different blocks
are not. With few data and many weights that is far less to give away.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..batches import Batches
from ..curvature.capture import capture
from ..curvature.kernel import weight_kernels
from ..errors import StructureError
from ..evidence import Model
from ..evidence.kernel import joined_batch
from ..evidence.passes import check_model
from ..linalg import Dense
from ..priors import Prior
from .hyperparameters import HyperGradient
from .stochastic import Estimate, Outputs, bound_slopes, bound_terms, check_outputs, chosen_columns, draw_outputs


class Partition(NamedTuple):
    r"""What the bound needs of the data of this process, whatever the prior.

    Arguments:
        names: The weights w.
        kernels: For each block the kernels :math:`K_w`, in that order.
        factor: How many columns of the root one row stands for, c.
        log_likelihood: :math:`\log p(D|\theta)`.
        num_data: The number of data.
    """

    names: tuple[str, ...]
    kernels: tuple[Float[Tensor, "_ _ _"], ...]
    factor: int
    log_likelihood: Float[Tensor, ""]
    num_data: int


def check_per_weight(prior: Prior) -> None:
    """Nothing, or an error for a prior that has several precisions within one weight."""
    if prior.structure == "diagonal":
        raise StructureError(
            "A diagonal prior has a precision for every entry, and the kernels of a partition are kept by weight. Use "
            "Prior(structure='layerwise') or 'scalar', or the estimator 'stochastic'."
        )


@torch.no_grad()
def partition_pass(
    model: Model, batches: Batches, blocks: Iterable[Int[Tensor, " _"]], outputs: Outputs = "one"
) -> Partition:
    """The kernels of a partition, one pass of a block in memory at a time beside what is kept.

    That is W · M² numbers for each block with one output, and W · (M C)² with all.

    Arguments:
        model: The model; its seed is that of the noise and of the drawn outputs.
        batches: The data, which can be read one by one.
        blocks: The positions of the data in each block; under a process group those of this process, and the sums of
            all are those of the whole partition.
        outputs: "one" drawn column of the root of Λ for each datum, or "all".
    """
    check_outputs(outputs)
    check_model(model, batches)
    kernels, factor, num_data = [], 1, 0
    log_likelihood = torch.zeros((), dtype=torch.float64, device=next(iter(model.weights.values())).device)
    for positions in blocks:
        batch = joined_batch(batches.at(positions))
        captured = capture(model.network, batch.x, model.weights, index=batch.identity, seed=model.seed)
        model.likelihood.check(captured.outputs, batch.y)
        drawn = draw_outputs(captured, batch, model.seed) if outputs == "one" else None
        columns, factor = chosen_columns(model.likelihood, captured.outputs, drawn)
        kernels.append(weight_kernels(captured, columns))
        log_likelihood = log_likelihood + model.likelihood.log_prob(captured.outputs, batch.y).double()
        num_data += len(positions)
    return Partition(tuple(model.weights), tuple(kernels), factor, log_likelihood, num_data)


@torch.enable_grad()
def partition_gradient(partition: Partition, prior: Prior, weights: Mapping[str, nn.Parameter]) -> HyperGradient:
    """The gradient of the bound with respect to the prior alone, with its terms: no pass over data.

    Arguments:
        partition: The kernels of this process's blocks.
        prior: The prior, any but a diagonal one.
        weights: The weights that it covers, those of the pass.
    """
    check_per_weight(prior)
    if tuple(weights) != partition.names:
        raise StructureError(
            f"These kernels are those of {', '.join(partition.names)}; {', '.join(weights)} came. Pass the weights of "
            "the model that the pass was made with."
        )
    shifts = prior.shifts()
    scales = torch.stack([shifts[name] for name in weights]).reciprocal()
    log_ratio = scales.new_zeros((), dtype=torch.float64)
    for number, kernels in enumerate(partition.kernels):
        # in double precision: the factor of so small a matrix costs nothing, and hundreds of them are added up; there
        # the halves of a matrix made in single precision are no mirror images any more
        kernel = torch.einsum("w,wij->ij", scales.to(kernels.dtype), kernels).double()
        block = Dense((kernel + kernel.mT) / 2, name=f"kernel of block {number}")
        log_ratio = log_ratio + block.logdet(torch.ones_like(kernel[0]))
    estimate = Estimate(partition.log_likelihood, partition.factor * log_ratio)
    terms = bound_terms(estimate, prior, weights, partition.num_data)
    return HyperGradient(bound_slopes(estimate, prior, weights, {}), terms)
