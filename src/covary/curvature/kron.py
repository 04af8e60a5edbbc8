r"""KFAC: one Kronecker product per weight, summed over data as factors.

With the rows :math:`\bar a` and :math:`\bar g` of `rows.py`,

.. math:: H \approx A \otimes B / c, \quad A = \sum \bar a \bar a^\top, \quad B = \sum_k \sum \bar g \bar g^\top.

*Expand* sums over the pairs (n, r) and counts them; *reduce* first takes the mean of ā and the sum of ḡ over r, then
sums over n. Over S it is always reduce (paper 1, Eq. (19)), and over group elements as well by default.
The square of a mean over few samples is too large by the variance of that mean. Where samples were drawn as two
independent sets with means :math:`\bar a_1, \bar a_2`, the estimate

.. math:: A = \tfrac12 \sum (\bar a_1 \bar a_2^\top + \bar a_2 \bar a_1^\top),

and B likewise, is free of that bias; it is symmetric, and positive semi-definite but for noise (`Kron.estimated`).
Factors carry a block axis Q for grouped and factored layers, so that no zero between blocks is ever stored; each block
has its own B, with count N, or all use their sum with count N·Q (paper 2, Sec. 5.1). Biases and other small
parameters get exact blocks.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..linalg import AbstractPSD, Dense, Kron
from ..linalg.gram import Gram
from .capture import Captured
from .exact import accumulate, exact_blocks
from .jacobian_factors import DirectVJP, LookupFactors, OuterFactors
from .rows import DEFAULT, Rows, Sharing, called, gradient_rows, input_rows, products, stack


def kron_blocks(
    captured: Captured, probes: Iterable[Float[Tensor, "N C"]], sharing: Sharing = DEFAULT
) -> dict[str, AbstractPSD]:
    """The blocks of the weights that were called, additive over batches by `accumulate`."""
    inputs = {name: _input_factor(captured, name, sharing) for name in called(captured, "kron")}
    biases = _biases(captured, inputs)
    partners = {bias: weight for bias, weight in biases.items() if _has_one_row(captured, inputs[weight])}
    summed = {weight: bias for bias, weight in biases.items() if bias not in partners}
    outputs: dict[str, Gram] = {}
    exact: dict[str, AbstractPSD] = {}
    for gradients in captured.pull_all(probes):
        found = exact_blocks(captured, gradients, without=biases)
        for name in inputs:
            rows = gradient_rows(captured, name, gradients, sharing)
            factor = _gradient_factor(rows, sharing)
            outputs[name] = factor if name not in outputs else outputs[name] + factor
            if name in summed:
                found[summed[name]] = _bias_block(rows, summed[name])
        exact = accumulate(exact, found)
        del gradients  # before those of the next probe are made
    exact |= {bias: Dense(outputs[weight], name=bias) for bias, weight in partners.items() if weight in outputs}
    pairs = {
        name: kron_product(captured, name, inputs[name].gram, factor, inputs[name].num_rows)
        for name, factor in outputs.items()
    }
    return {name: pairs.get(name) or exact[name] for name in captured.weights if name in pairs or name in exact}


def kron_product(captured: Captured, name: str, inputs: Gram, gradients: Gram, count: Tensor | None) -> Kron:
    """The product of both factors of a weight, in the order of `weight.flatten()`; the count as `Kron` takes it."""
    factors = captured.factors[name][0].factors
    rows_are_inputs = isinstance(factors, LookupFactors) or (isinstance(factors, OuterFactors) and factors.input_rows)
    # torch.kron(left, right) follows weight.flatten(): left indexes the weight's rows
    left, right = (inputs, gradients) if rows_are_inputs else (gradients, inputs)
    return Kron(right, left, count, estimated=captured.num_sets > 1)


class InputFactor(NamedTuple):
    """The factor of the inputs and the number of rows summed in it, per block of rows of the weight."""

    gram: Gram
    num_rows: Float[Tensor, "*Q"]


def _biases(captured: Captured, inputs: dict[str, InputFactor]) -> dict[str, str]:
    """For each bias whose product is the sum of the rows g of its layer's weight, that weight."""
    weights = {}
    for name, factor in inputs.items():
        call, factors = captured.factors[name][0]
        single = len(captured.factors[name]) == 1 and isinstance(factors, OuterFactors) and not factors.input_rows
        if single and factor.gram.matrix.ndim == 2:  # no groups split the factor
            weights[call] = name
    biases = {}
    for name in called(captured, "dense"):
        call, factors = captured.factors[name][0]
        if len(captured.factors[name]) == 1 and isinstance(factors, DirectVJP) and factors.additive and call in weights:
            biases[name] = weights[call]
    return biases


def _has_one_row(captured: Captured, factor: InputFactor) -> bool:
    """Whether a datum is one row, so that the gradient factor of the weight is the exact block of its bias."""
    return captured.num_sets == 1 and float(factor.num_rows.max()) == len(captured.outputs)


def _bias_block(rows: Rows, name: str) -> Dense:
    """The exact block of a bias for one probe: gradients of all samples are read once, for the rows of its weight."""
    ((call,),) = rows.values()
    own = call.squeeze(0) if len(call) == 1 else call.mean(0)  # each set is scaled to all samples
    added = own.sum(1, keepdim=True)
    return Dense(products([added[None]]).matrix, name=name)


def _input_factor(captured: Captured, name: str, sharing: Sharing) -> InputFactor:
    lookups = [factors for _, factors in captured.factors[name] if isinstance(factors, LookupFactors)]
    if lookups and captured.num_samples == 1 and sharing.rows == "expand":
        # one-hot rows have a diagonal Gram matrix: blocks of size one
        counts = torch.stack([factors.counts() for factors in lookups]).sum(0)
        return InputFactor(Gram(counts[:, None, None]), _count([sum(factors.num_used for factors in lookups)], counts))
    if (short := _short_input_factor(captured, name, sharing)) is not None:
        return short
    rows = input_rows(captured, name, sharing)
    if lookups and sharing.rows == "expand":  # positions without lookup are no rows
        num_rows = [sum(factors.num_used for factors in lookups)]
    else:
        num_rows = [sum(part.shape[1] * part.shape[2] for part in rows[key]) for key in sorted(rows)]
    gram = stack([products(rows[key]) for key in sorted(rows)])
    if sharing.common_gradients:
        num_rows = [number * rows[0][0].shape[3] for number in num_rows]
    return InputFactor(gram, _count(num_rows, gram.matrix))


def _short_input_factor(captured: Captured, name: str, sharing: Sharing) -> InputFactor | None:
    """The factor of a weight that is called once and has a shortcut to the products of all rows; else None."""
    (_, factors), *others = captured.factors[name]
    if others or not isinstance(factors, OuterFactors) or sharing.rows == "reduce" or captured.num_sets > 1:
        return None
    shortcut = factors.input_shortcut(merge=sharing.elements == "reduce")
    if shortcut is None:
        return None
    matrix = factors.input_gram(shortcut, captured.sample_weights)
    num_rows = shortcut.num_rows * (len(matrix) if sharing.common_gradients else 1)
    return InputFactor(Gram(matrix if len(matrix) > 1 else matrix[0]), _count([num_rows], matrix))


def _gradient_factor(rows: Rows, sharing: Sharing) -> Gram:
    if sharing.common_gradients:  # blocks count as further rows
        rows = {key: [part.flatten(2, 3)[:, :, :, None] for part in parts] for key, parts in rows.items()}
    return stack([products(rows[key]) for key in sorted(rows)])


def _count(counts: list[int], like: Tensor) -> Tensor:
    values = torch.tensor(counts, dtype=like.dtype, device=like.device)
    return values[0] if len(counts) == 1 else values
