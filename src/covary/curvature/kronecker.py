r"""KFAC: one Kronecker product per weight, summed over data as factors.

With :math:`\bar a = \sum_s w_s a` and :math:`\bar g = \sum_s g` (g carries :math:`w_s`, the weight of its sample in
f̂, as a rule 1/S), of shapes (N, R, Q, D) and (N, R, Q, G),

.. math:: H \approx A \otimes B / c, \quad A = \sum \bar a \bar a^\top, \quad B = \sum_k \sum \bar g \bar g^\top.

*Expand* sums over the pairs (n, r) and counts them; *reduce* first takes the mean of ā and the sum of ḡ over r, then
sums over n. Over S it is always reduce (paper 1, Eq. (19)). Factors carry a block axis Q for grouped layers, so that no
zero between groups is ever stored. Biases and other small parameters get exact blocks.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._types import Batch, Columns
from ..likelihoods import Likelihood
from ..linalg import AbstractPSD, Block, Dense, Kron
from .accumulate import accumulate, as_block
from .capture import Captured
from .columns import draw_signs, root_columns
from .coverage import select_weights
from .dense import dense_block
from .diagonal import diagonal_block
from .evaluate import evaluate
from .shares import Exact, Lookup, Outer

__all__ = ["KfacApprox", "kfac", "kron_blocks"]

KfacApprox = Literal["expand", "reduce"]


def kfac(
    network: nn.Module,
    likelihood: Likelihood,
    batch: Batch,
    *,
    columns: Columns = "exact",
    generator: torch.Generator | None = None,
    weights: Iterable[str] | None = None,
    index: Int[Tensor, " N"] | None = None,
    seed: int = 0,
    kfac_approx: KfacApprox = "expand",
) -> Block:
    """The Kronecker-factored GGN of a batch, one block per weight, sum over data, without the prior.

    Arguments:
        network: The network, averaged or plain.
        likelihood: The likelihood.
        batch: Inputs and targets.
        columns: "exact" for all C columns of the root of Λ, or a number of random sketches.
        generator: Where the sketches' signs come from.
        weights: Names of the weights to cover; all by default.
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        seed: The seed of that noise.
        kfac_approx: "expand" or "reduce" over positions and tokens.
    """
    blocks: dict[str, AbstractPSD] = {}
    for captured in evaluate(network, likelihood, batch, weights, index, seed):
        signs = draw_signs(columns, captured.outputs, generator)
        part = kron_blocks(captured, root_columns(likelihood, captured.outputs, signs), kfac_approx)
        blocks = accumulate(blocks, part)
    return as_block(blocks, select_weights(network, weights))


def kron_blocks(
    captured: Captured, columns: Iterable[Float[Tensor, "N C"]], kfac_approx: KfacApprox = "expand"
) -> dict[str, AbstractPSD]:
    """The blocks of the weights that were called, additive over batches by `accumulate`."""
    inputs = {name: _input_factor(captured, name, kfac_approx) for name in _names(captured, "kron")}
    partners = _partners(captured, inputs)
    dense = [name for name in _names(captured, "dense") if name not in partners]
    outputs: dict[str, Tensor] = {}
    exact: dict[str, AbstractPSD] = {}
    for gradients in captured.pull_all(columns):
        for name in inputs:
            factor = _gradient_factor(captured, name, gradients, kfac_approx)
            outputs[name] = factor if name not in outputs else outputs[name] + factor
        for name in dense:
            block: AbstractPSD = dense_block(captured, (name,), gradients)
            exact[name] = block if name not in exact else exact[name].accumulate(block)
        for name in _names(captured, "diagonal"):
            block = diagonal_block(captured, name, gradients)
            exact[name] = block if name not in exact else exact[name].accumulate(block)
        del gradients  # before the next column's are made
    exact |= {bias: Dense(outputs[weight], name=bias) for bias, weight in partners.items() if weight in outputs}
    products = {name: _product(captured, name, inputs[name], factor) for name, factor in outputs.items()}
    return {name: products.get(name) or exact[name] for name in captured.weights if name in products or name in exact}


class InputFactor(NamedTuple):
    """The factor of the inputs and the number of rows summed in it, per block of rows of the weight."""

    matrix: Float[Tensor, "*Q D D"]
    num_rows: Float[Tensor, "*Q"]


def _names(captured: Captured, structure: str) -> list[str]:
    return [n for n in captured.weights if captured.structures[n] == structure and captured.shares[n]]


def _partners(captured: Captured, inputs: dict[str, InputFactor]) -> dict[str, str]:
    """For each bias whose exact block is the gradient factor of its layer's weight, that weight."""
    weights = {}
    for name, factor in inputs.items():
        call, share = captured.shares[name][0]
        single = len(captured.shares[name]) == 1 and isinstance(share, Outer) and not share.input_rows
        # as many rows as data: nothing is shared inside a datum, and no groups part the factor
        if single and factor.matrix.ndim == 2 and float(factor.num_rows.max()) == len(captured.outputs):
            weights[call] = name
    biases = {}
    for name in _names(captured, "dense"):
        call, share = captured.shares[name][0]
        if len(captured.shares[name]) == 1 and isinstance(share, Exact) and share.additive and call in weights:
            biases[name] = weights[call]
    return biases


def _product(captured: Captured, name: str, inputs: InputFactor, gradients: Tensor) -> Kron:
    share = captured.shares[name][0].share
    rows_are_inputs = isinstance(share, Lookup) or (isinstance(share, Outer) and share.input_rows)
    # torch.kron(left, right) follows weight.flatten(): left indexes the weight's rows
    left, right = (inputs.matrix, gradients) if rows_are_inputs else (gradients, inputs.matrix)
    return Kron(right, left, inputs.num_rows)


def _input_factor(captured: Captured, name: str, kfac_approx: KfacApprox) -> InputFactor:
    lookups = [share for _, share in captured.shares[name] if isinstance(share, Lookup)]
    if lookups and captured.num_samples == 1 and kfac_approx == "expand":
        # one-hot rows have a diagonal Gram matrix: blocks of size one
        counts = torch.stack([share.counts() for share in lookups]).sum(0)
        return InputFactor(counts[:, None, None], _count([sum(share.num_used for share in lookups)], counts))
    rows: dict[int, list[Tensor]] = {}
    for _, share in captured.shares[name]:
        assert not isinstance(share, Exact), "exact shares have no factors"
        position = share.block[0] if isinstance(share, Outer) else 0
        rows.setdefault(position, []).append(share.averaged_inputs(captured.sample_weights))
    if kfac_approx == "reduce":
        rows = {key: [_reduce(parts) / sum(part.shape[1] for part in parts)] for key, parts in rows.items()}
    if lookups and kfac_approx == "expand":  # positions without lookup are no rows
        num_rows = [sum(share.num_used for share in lookups)]
    else:
        num_rows = [sum(part.shape[0] * part.shape[1] for part in rows[key]) for key in sorted(rows)]
    matrix = _stack([_gram(rows[key]) for key in sorted(rows)])
    return InputFactor(matrix, _count(num_rows, matrix))


def _gradient_factor(
    captured: Captured, name: str, gradients: Sequence[Tensor], kfac_approx: KfacApprox
) -> Float[Tensor, "*Q G G"]:
    rows: dict[int, list[Tensor]] = {}
    for call, share in captured.shares[name]:
        assert not isinstance(share, Exact), "exact shares have no factors"
        position = share.block[0] if isinstance(share, Outer) else 0
        rows.setdefault(position, []).append(share.summed_gradients(gradients[call]))
    if kfac_approx == "reduce":
        rows = {key: [_reduce(parts)] for key, parts in rows.items()}
    return _stack([_gram(rows[key]) for key in sorted(rows)])


def _reduce(parts: list[Float[Tensor, "N _ Q D"]]) -> Float[Tensor, "N 1 Q D"]:
    """The sum over the shared axis and over calls."""
    return torch.stack([part.sum(1, keepdim=True) for part in parts]).sum(0)


def _gram(parts: list[Float[Tensor, "N _ Q D"]]) -> Float[Tensor, "*Q D D"]:
    grams = [_gram_of_rows(part) for part in parts]
    return torch.stack(grams).sum(0) if len(grams) > 1 else grams[0]


def _gram_of_rows(rows: Float[Tensor, "N R Q D"]) -> Float[Tensor, "*Q D D"]:
    _, num_shared, num_blocks, size = rows.shape
    if num_blocks > 1:
        return torch.einsum("nrqi,nrqj->qij", rows, rows)
    single = rows.squeeze(2)
    if size <= num_shared:
        # rows of a convolution are a transposed view: products per datum read it as it lies, and are the smaller tensor
        return (single.transpose(1, 2) @ single).sum(0)
    flat = single.flatten(0, 1)
    return flat.T @ flat


def _stack(matrices: list[Tensor]) -> Tensor:
    return matrices[0] if len(matrices) == 1 else torch.stack(matrices)


def _count(counts: list[int], like: Tensor) -> Tensor:
    values = torch.tensor(counts, dtype=like.dtype, device=like.device)
    return values[0] if len(counts) == 1 else values
