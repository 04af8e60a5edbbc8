r"""KFAC with partial traces: one Kronecker product per weight that keeps the dependence of inputs and gradients.

KFAC multiplies a mean over data of a aᵀ by one of g gᵀ, as if both were independent. In a trained network they are
not: where activations are large the outputs are certain, and the curvature is small. The product that has the same
partial traces as the sum :math:`R = \sum_k \sum_i (g_{ki} \otimes a_i)(g_{ki} \otimes a_i)^\top` over the rows i of
KFAC (`rows.py`), which is H where a datum is one row, is

.. math:: H \approx A \otimes B / t, \quad A = \sum_i \Big(\sum_k \|g_{ki}\|^2\Big) a_i a_i^\top, \quad
    B = \sum_i \|a_i\|^2 \sum_k g_{ki} g_{ki}^\top, \quad t = \mathrm{tr} A = \mathrm{tr} B,

per block. It is exact wherever KFAC is, and A and B are sums over data and probes, so batches, processes and probes
add them up. The products of different samples or positions of one datum, which KFAC omits from R, are omitted here
too. With two independent sets of samples the cross products are used; inputs and gradients of one set have the same
samples, so that a bias of the order 1/S remains where they vary together. Other parameters have the exact blocks of
KFAC.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from ..linalg import AbstractPSD
from ..linalg.gram import Gram
from .capture import Captured
from .exact import accumulate, exact_blocks
from .jacobian_factors import LookupFactors
from .kron import kron_product
from .rows import DEFAULT, Rows, Sharing, called, gradient_rows, input_rows, products, stack

# The squared length of each row of a call, by the block of the parameter that the call fills.
Squares = dict[int, list[Float[Tensor, "N _ Q"]]]


def traced_blocks(
    captured: Captured, probes: Iterable[Float[Tensor, "N C"]], sharing: Sharing = DEFAULT
) -> dict[str, AbstractPSD]:
    """The blocks of the weights that were called, additive over batches by `accumulate`."""
    # rows are made twice, and never those of two weights at a time: all layers' patches would be held for every probe
    input_squares = {name: _squares(_inputs(captured, name, sharing)) for name in called(captured, "kron")}
    gradient_squares: dict[str, Squares] = {}
    outputs: dict[str, Gram] = {}
    exact: dict[str, AbstractPSD] = {}
    for gradients in captured.pull_all(probes):
        for name, squares in input_squares.items():
            rows = gradient_rows(captured, name, gradients, sharing)
            factor = _factor(rows, squares)
            outputs[name] = factor if name not in outputs else outputs[name] + factor
            gradient_squares[name] = _added(gradient_squares.get(name), _squares(rows))
        exact = accumulate(exact, exact_blocks(captured, gradients))
        del gradients  # before those of the next probe are made
    blocks = dict(exact)
    for name, gradient_factor in outputs.items():
        input_factor = _input_factor(captured, name, gradient_squares[name], sharing)
        blocks[name] = kron_product(captured, name, input_factor, gradient_factor, None)
    return {name: blocks[name] for name in captured.weights if name in blocks}


def _one_hot(captured: Captured, name: str, sharing: Sharing) -> list[LookupFactors]:
    """The calls of a table whose rows are one-hot: their products are counts, and need not be written out."""
    if captured.num_samples > 1 or sharing.rows == "reduce":
        return []
    return [factors for _, factors in captured.factors[name] if isinstance(factors, LookupFactors)]


def _inputs(captured: Captured, name: str, sharing: Sharing) -> Rows:
    """The rows a; of a table their lengths alone, 1 where one was looked up and 0 elsewhere."""
    lookups = _one_hot(captured, name, sharing)
    if not lookups:
        return input_rows(captured, name, sharing)
    used = [(factors.index >= 0).to(factors.dtype) for factors in lookups]
    return {0: [part.reshape(1, len(captured.outputs), -1, 1, 1) for part in used]}


def _input_factor(captured: Captured, name: str, squares: Squares, sharing: Sharing) -> Gram:
    lookups = _one_hot(captured, name, sharing)
    if not lookups:
        return _factor(_inputs(captured, name, sharing), squares)
    counts = [factors.counts(weights) for factors, weights in zip(lookups, squares[0], strict=True)]
    return Gram(torch.stack(counts).sum(0)[:, None, None])


def _factor(rows: Rows, weights: Squares) -> Gram:
    """The weighted products of all rows, block by block."""
    return stack([products(rows[key], weights[key]) for key in sorted(rows)])


def _squares(rows: Rows) -> Squares:
    """The squared length of each row, or the product of one set's with the other's."""
    return {key: [(part[0] * part[-1]).sum(-1) for part in parts] for key, parts in rows.items()}


def _added(total: Squares | None, part: Squares) -> Squares:
    if total is None:
        return part
    return {key: [a + b for a, b in zip(total[key], part[key], strict=True)] for key in part}
