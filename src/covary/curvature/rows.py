r"""The rows of the Kronecker factors: the contribution of one datum to each factor.

With :math:`\bar a = \sum_s w_s a` and :math:`\bar g = \sum_s g` (g contains :math:`w_s`, the weight of its sample in
f̂, usually 1/S), of shapes (T, N, R, Q, D) and (T, N, R, Q, G): T independent sets of samples, data, places that share
the weight inside a datum, blocks of the weight, features. Over S a row is always a mean or a sum (paper 1, Eq. (19)),
over group elements too by default; over R if `Sharing` says so.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from ..linalg.gram import Gram, row_products
from .capture import Captured
from .jacobian_factors import DirectVJP, JacobianFactors, LookupFactors, OuterFactors

KfacApprox = Literal["expand", "reduce"]
# The rows of each call of a weight, by the block of the parameter that the call fills.
Rows = dict[int, list[Float[Tensor, "T N _ Q _"]]]


class Sharing(NamedTuple):
    """Treatment of weight sharing in the factors: over rows of one datum, group elements, blocks of the weight."""

    rows: KfacApprox = "expand"
    elements: KfacApprox = "reduce"
    common_gradients: bool = False  # one B for all blocks


DEFAULT = Sharing()


def called(captured: Captured, structure: str) -> list[str]:
    """The weights with blocks of this structure that the pass used."""
    return [n for n in captured.weights if captured.structures[n] == structure and captured.factors[n]]


def input_rows(captured: Captured, name: str, sharing: Sharing) -> Rows:
    r"""The rows :math:`\bar a` of a weight; reduced, their mean over the places that share it."""
    rows: Rows = {}
    for _, factors in captured.factors[name]:
        rows.setdefault(_position(factors), []).append(_input_rows(captured, factors, sharing))
    if sharing.rows == "reduce":
        return {key: [_reduce(calls) / sum(call.shape[2] for call in calls)] for key, calls in rows.items()}
    return rows


def gradient_rows(captured: Captured, name: str, gradients: Sequence[Tensor], sharing: Sharing) -> Rows:
    r"""The rows :math:`\bar g` of a weight for one probe; reduced, their sum over the places that share it."""
    rows: Rows = {}
    for call, factors in captured.factors[name]:
        rows.setdefault(_position(factors), []).append(_gradient_rows(captured, factors, gradients[call], sharing))
    return {key: [_reduce(calls)] for key, calls in rows.items()} if sharing.rows == "reduce" else rows


def products(
    calls: Sequence[Float[Tensor, "T N _ Q D"]], weights: Sequence[Float[Tensor, "N _ Q"]] | None = None
) -> Gram:
    """The sum of outer products over rows and calls: of rows with themselves, or of one set with the other.

    Arguments:
        weights: The weight of each row; 1 by default.
    """
    if weights is None and len(calls[0]) == 1:
        # a view, whose derivative is one too; torch's own `apply` is untyped
        found = [cast(Any, _OwnProducts).apply(rows.squeeze(0)) for rows in calls]
    else:
        weighted = [rows[0] for rows in calls]
        if weights is not None:
            weighted = [rows * weight[..., None] for rows, weight in zip(weighted, weights, strict=True)]
        found = [_products(left, rows[-1]) for left, rows in zip(weighted, calls, strict=True)]
    matrix = torch.stack(found).sum(0) if len(found) > 1 else found[0]
    if len(calls[0]) > 1:
        return Gram((matrix + matrix.mT) / 2)
    return Gram(matrix, _few_rows(calls, weights))


def stack(grams: Sequence[Gram]) -> Gram:
    """The factors of several blocks, stacked."""
    return grams[0] if len(grams) == 1 else Gram(torch.stack([gram.matrix for gram in grams]))


def _position(factors: JacobianFactors) -> int:
    return factors.block[0] if isinstance(factors, OuterFactors) else 0


def _sets(captured: Captured) -> list[slice]:
    """The samples of each independent set."""
    size = captured.num_samples // captured.num_sets
    return [slice(number * size, (number + 1) * size) for number in range(captured.num_sets)]


def _input_rows(captured: Captured, factors: JacobianFactors, sharing: Sharing) -> Float[Tensor, "T N R Q D"]:
    r"""The means :math:`\bar a` of each set of samples."""
    assert not isinstance(factors, DirectVJP), "a direct product has no factors a, g"
    weights = captured.sample_weights
    if isinstance(factors, LookupFactors):
        return _stacked([factors.averaged_inputs(weights, samples=samples) for samples in _sets(captured)])
    merge = sharing.elements == "reduce"
    return _stacked([factors.averaged_inputs(weights, samples=samples, merge=merge) for samples in _sets(captured)])


def _gradient_rows(
    captured: Captured, factors: JacobianFactors, gradient: Tensor, sharing: Sharing
) -> Float[Tensor, "T N R Q G"]:
    r"""The sums :math:`\bar g` of each set of samples, scaled to all samples."""
    assert not isinstance(factors, DirectVJP), "a direct product has no factors a, g"
    if isinstance(factors, LookupFactors):
        sums = [factors.summed_gradients(gradient, samples=samples) for samples in _sets(captured)]
    else:
        merge = sharing.elements == "reduce"
        sums = [factors.summed_gradients(gradient, samples=samples, merge=merge) for samples in _sets(captured)]
    return _stacked(sums) if captured.num_sets == 1 else captured.num_sets * _stacked(sums)


def _stacked(sets: list[Float[Tensor, "N R Q D"]]) -> Float[Tensor, "T N R Q D"]:
    return sets[0].unsqueeze(0) if len(sets) == 1 else torch.stack(sets)


def _reduce(calls: list[Float[Tensor, "T N _ Q D"]]) -> Float[Tensor, "T N 1 Q D"]:
    """The sum over the shared axis and over calls."""
    return torch.stack([rows.sum(2, keepdim=True) for rows in calls]).sum(0)


def _few_rows(
    calls: Sequence[Float[Tensor, "1 N _ Q D"]], weights: Sequence[Float[Tensor, "N _ Q"]] | None
) -> Float[Tensor, "Q _ D"] | None:
    """The rows of all calls by block; None if they are not fewer than their entries, or a graph is recorded."""
    number = sum(rows.shape[1] * rows.shape[2] for rows in calls)
    if number >= calls[0].shape[4] or torch.is_grad_enabled():
        return None
    found = [rows[0] for rows in calls]
    if weights is not None:
        found = [rows * weight.sqrt()[..., None] for rows, weight in zip(found, weights, strict=True)]
    return torch.cat([rows.permute(2, 0, 1, 3).flatten(1, 2) for rows in found], 1)


class _OwnProducts(Function):
    r"""The products of rows with themselves, (N, R, Q, D) -> (Q, D, D), or (D, D) for one block.

    The gradient by the rows, :math:`R (G + G^\top)`, is one product of matrices, where autograd would compute two.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        if rows.shape[2] > 1 or _are_many(rows.squeeze(2)):
            return _products(rows, rows)
        return row_products(rows.squeeze(2).flatten(0, 1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (rows,) = ctx.saved_tensors
        both = gradient + gradient.mT
        if rows.shape[2] > 1:
            return torch.einsum("nrqi,qij->nrqj", rows, both)
        return torch.bmm(both.expand(len(rows), -1, -1), rows.squeeze(2).mT).mT.unsqueeze(2)


def _products(left: Float[Tensor, "N R Q D"], right: Float[Tensor, "N R Q D"]) -> Float[Tensor, "*Q D D"]:
    if left.shape[2] > 1:
        return torch.einsum("nrqi,nrqj->qij", left, right)
    left, right = left.squeeze(2), right.squeeze(2)
    if _are_many(left):
        return (left.mT @ right).sum(0)
    return left.flatten(0, 1).T @ right.flatten(0, 1)


def _are_many(rows: Float[Tensor, "N R D"]) -> bool:
    """Whether a datum has as many rows as columns, so that products per datum are no larger.

    Rows of a convolution are a transposed view, which products per datum read without a copy.
    """
    return rows.shape[2] <= rows.shape[1]
