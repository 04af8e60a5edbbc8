r"""The tangent kernel: the dual of the full GGN, whose size is that of the data instead of the weights.

.. math:: K = \Lambda^{1/2} \hat J \delta^{-1} \hat J^\top \Lambda^{1/2}, \qquad
    \log|H + \delta| - \log|\delta| = \log|I + K|.

One row per datum and probe (column of the root of Λ), probe-major: row k·N + n. K is a sum over weights, and each
weight's term is computed in one of two ways: as the Gram matrix of explicit *products* :math:`\hat J^\top v` of the
size of the weight, or from the *rows* of its factors as
:math:`\delta^{-1} \sum_{t,t'} (a_t \cdot a'_{t'})(g_t \cdot g'_{t'})` with t counting samples, positions and calls,
without a tensor of the size of the weight. `rows_are_cheaper` chooses.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .capture import CallFactors, Captured, row_slices
from .jacobian_factors import DirectVJP, LookupFactors, OuterFactors

Gradients = Sequence[Sequence[Tensor]]  # K probes, each with the gradient at every call's output


class RowSizes(NamedTuple):
    """The sizes of a family: T rows per datum, Q diagonal blocks, D inputs and G outputs in each."""

    num_rows: int
    num_blocks: int
    num_inputs: int
    num_outputs: int


class Family(NamedTuple):
    """The calls that use one block of a weight's rows, and their sizes taken together."""

    calls: tuple[tuple[int, OuterFactors | LookupFactors], ...]
    sizes: RowSizes


def tangent_kernel(
    captured: Captured, probes: Iterable[Float[Tensor, "N C"]], shifts: Mapping[str, Tensor]
) -> Float[Tensor, "KN KN"]:
    """The kernel K of a captured pass, a sum over weights.

    Only one weight's rows or products are in memory at a time; for the derivative of a differentiable pass they are
    recomputed.

    Arguments:
        probes: Columns of the root of Λ; the kernel has their number times N rows.
        shifts: The prior precision of each weight, 0-d or (numel,).
    """
    gradients = list(captured.pull_all(probes))
    size = len(gradients) * len(captured.outputs)
    kernel = captured.outputs.new_zeros(size, size)
    for name in captured.weights:
        if captured.factors[name]:
            term = partial(_weight_kernel, captured, name, gradients, shifts[name])
            if torch.is_grad_enabled():
                kernel = kernel + checkpoint(term, use_reentrant=False, preserve_rng_state=False)
            else:  # in place: a kernel of many data fills much of the memory
                kernel += term()
    return kernel


def weight_kernels(captured: Captured, probes: Iterable[Float[Tensor, "N C"]]) -> Float[Tensor, "W KN KN"]:
    r"""The kernel :math:`K_w` of each weight at precision 1: that of any prior is :math:`\sum_w K_w / \delta_w`.

    In the order of `captured.weights`; zero for a weight that the pass did not use.
    """
    gradients = list(captured.pull_all(probes))
    size, one = len(gradients) * len(captured.outputs), captured.outputs.new_ones(())
    kernels = captured.outputs.new_zeros(len(captured.weights), size, size)
    for number, name in enumerate(captured.weights):
        if captured.factors[name]:
            kernels[number] = _weight_kernel(captured, name, gradients, one)
    return kernels


def rows_are_cheaper(num_data: int, num_probes: int, families: Sequence[RowSizes]) -> bool:
    r"""Whether inner products of rows take fewer multiplications than the explicit products :math:`\hat J^\top v`.

    For N data and K probes, with P = QDG entries of a family and each pair of probes once,

    .. math:: \tfrac12 K(K+1) (NT)^2 Q (G + 1) + (NT)^2 Q D \quad\text{against}\quad KNT\,P + (KN)^2 P,

    that is, about T² against 2D: rows for layers that are called once per datum and sample, explicit products for
    convolutions with many positions.

    Arguments:
        num_data: N.
        num_probes: K.
        families: The sizes of the families of the weight.
    """
    by_rows = explicit = 0
    for num_rows, num_blocks, num_inputs, num_outputs in families:
        products = (num_data * num_rows) ** 2 * num_blocks
        by_rows += num_probes * (num_probes + 1) // 2 * products * (num_outputs + 1) + products * num_inputs
        length = num_blocks * num_inputs * num_outputs
        explicit += num_probes * num_data * (num_rows + num_probes * num_data) * length
    return by_rows <= explicit


def _weight_kernel(captured: Captured, name: str, gradients: Gradients, shift: Tensor) -> Float[Tensor, "KN KN"]:
    """One weight's term of the kernel, computed in the cheaper way."""
    families = _families(captured.factors[name], gradients[0]) if shift.ndim == 0 else None
    if families is not None and rows_are_cheaper(len(captured.outputs), len(gradients), [f.sizes for f in families]):
        return torch.stack([_by_rows(family, gradients) for family in families]).sum(0) / shift
    everything = slice(0, len(captured.outputs))
    jacobian = torch.cat([captured.vjp(name, probe, everything) for probe in gradients])
    scaled = jacobian * shift.rsqrt()
    return scaled @ scaled.T


def _by_rows(family: Family, gradients: Gradients) -> Float[Tensor, "KN KN"]:
    r"""The sum over rows of :math:`(a \cdot a')(g \cdot g')`."""
    a = _flat([_input_rows(factors) for _, factors in family.calls])
    g = [_flat([_gradient_rows(factors, probe[call]) for call, factors in family.calls]) for probe in gradients]
    num_rows = family.sizes.num_rows
    num_data = a.shape[1] // num_rows
    order = range(len(g))
    blocks: dict[tuple[int, int], list[Tensor]] = {(i, j): [] for i in order for j in range(i, len(g))}
    for data in row_slices(num_data, len(a) * num_rows**2 * num_data):
        rows = slice(data.start * num_rows, data.stop * num_rows)
        inputs = _input_products(a[:, rows], a, g[0].dtype)
        for (i, j), chunks in blocks.items():
            products = inputs * (g[i][:, rows] @ g[j].mT)  # (Q, n·T, N·T)
            chunks.append(products.unflatten(2, (-1, num_rows)).unflatten(1, (-1, num_rows)).sum((0, 2, 4)))
    upper = {key: torch.cat(chunks) for key, chunks in blocks.items()}
    return torch.cat([torch.cat([upper[i, j] if i <= j else upper[j, i].T for j in order], 1) for i in order])


def _families(calls: Sequence[CallFactors], gradients: Sequence[Tensor]) -> list[Family] | None:
    """A weight's calls by the block of its rows that they use; None if they are not sums of equal products."""
    found: dict[int, Family] = {}
    layouts = set()
    for call, factors in calls:
        if isinstance(factors, DirectVJP):
            return None
        sizes = _sizes(factors, gradients[call])
        position, number, transposed = 0, 1, True
        if isinstance(factors, OuterFactors):
            (position, number), transposed = factors.block, factors.input_rows
        layouts.add((type(factors), number, transposed, *sizes[1:]))
        before = found.get(position, Family((), sizes._replace(num_rows=0)))
        num_rows = before.sizes.num_rows + sizes.num_rows
        found[position] = Family((*before.calls, (call, factors)), sizes._replace(num_rows=num_rows))
    return list(found.values()) if len(layouts) == 1 else None


def _sizes(factors: OuterFactors | LookupFactors, gradient: Tensor) -> RowSizes:
    """The sizes of one call, from its first datum."""
    if isinstance(factors, LookupFactors):
        num_rows = factors.index[: factors.fold].numel()
        return RowSizes(num_rows, 1, factors.num_rows, gradient[: factors.fold].numel() // num_rows)
    _, num_rows, num_blocks, num_inputs = _of_data(factors.unfold(factors.inputs[: factors.fold]), factors.fold).shape
    num_outputs = factors.arrange(gradient[: factors.fold]).shape[-1]
    return RowSizes(num_rows, num_blocks, num_inputs, num_outputs)


def _input_rows(factors: OuterFactors | LookupFactors) -> Float[Tensor, "N T Q D"] | Int[Tensor, "N T 1 1"]:
    """The rows a; for a table, the indices of the one-hot rows."""
    if isinstance(factors, OuterFactors):
        return _of_data(factors.unfold(factors.inputs), factors.fold)
    return _of_data(factors.index[..., None, None], factors.fold)


def _gradient_rows(factors: OuterFactors | LookupFactors, gradient: Tensor) -> Float[Tensor, "N T Q G"]:
    """The rows g of one probe."""
    if isinstance(factors, OuterFactors):
        return _of_data(factors.arrange(gradient), factors.fold)
    # a negative index marks a position without gradient
    seen = (factors.index >= 0)[..., None, None]
    return _of_data(gradient.reshape(*factors.index.shape, 1, -1) * seen, factors.fold)


def _of_data(rows: Shaped[Tensor, "NF S R Q D"], fold: int) -> Shaped[Tensor, "N T Q D"]:
    """The rows of each datum in one axis, including folded ones."""
    return rows.unflatten(0, (-1, fold)).flatten(1, 3)


def _flat(calls: Sequence[Shaped[Tensor, "N _ Q D"]]) -> Shaped[Tensor, "Q NT D"]:
    """The rows of all calls and data, datum by datum."""
    return torch.cat(list(calls), 1).flatten(0, 1).movedim(1, 0)


def _input_products(
    left: Shaped[Tensor, "Q m D"], right: Shaped[Tensor, "Q n D"], dtype: torch.dtype
) -> Float[Tensor, "Q m n"]:
    """The products a·a' of all pairs of rows; for one-hot rows, whether their indices are equal."""
    return left @ right.mT if left.is_floating_point() else (left == right.mT).to(dtype)
