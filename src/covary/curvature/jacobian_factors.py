r"""The factors (a, g) of a layer's Jacobian: the form from which every curvature is computed.

For datum n and one probe :math:`v`, a column of a root of :math:`\Lambda`, one call of a layer contributes to the
vector–Jacobian product :math:`\hat J_n^\top v` of each of its parameters

.. math:: \sum_{s,r} a[n,s,r] \otimes g[n,s,r],

with the layout ``a: (N, S, R, Q, D)`` and ``g: (N, S, R, Q, G)``: data, augmentation samples, places that share the
weight inside one datum (positions, tokens), diagonal blocks of the weight (groups of a convolution), features. ``a`` is
computed from the layer's input, ``g`` from the gradient of the outputs with respect to the layer's output; both maps
are linear, so that a sum over S may be taken before or after.

A rule returns `OuterFactors` for a weight that multiplies its input, `LookupFactors` for a table indexed by its input,
and `DirectVJP` for a small parameter whose products :math:`\hat J_n^\top v` it computes directly (a bias: a ≡ 1).

A layer may hold several slices of features per datum, as a group convolution does with one per group element h; R then
runs over pairs of element and position. `MergedFactors` computes the mean of ``a`` and the sum of ``g`` over h before
patches are unfolded, so that group elements are treated like samples and all of them cost as much as one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

ALL = slice(None)


@dataclass(frozen=True)
class Shortcut:
    r"""A faster way to the Gram matrix of the rows ``a`` than by forming the rows."""

    gram: Callable[[Tensor], Tensor]  # map from inputs (N, 1, ...) to Σ a aᵀ over data n and rows r, (Q, D, D)
    num_rows: int  # the number of pairs (n, r) in that sum


@dataclass(frozen=True)
class MergedFactors:
    r"""The rows of `OuterFactors` reduced over the M group elements of one datum to R' = R / M rows.

    Arguments:
        unfold: Linear map from inputs (N, S, ...) to the mean of ``a`` over the elements, (N, S, R', Q, D).
        arrange: Linear map from output gradients (N, S, ...) to the sum of ``g`` over the elements, (N, S, R', Q, G).
        shortcut: A faster way to the Gram matrix of these rows, if there is one.

    Example:
        >>> import torch
        >>> from covary.curvature import MergedFactors
        >>> rows = lambda x: x[:, :, None, None]  # (N, S, M, D) -> (N, S, R', Q, D) after the reduction over M
        >>> merged = MergedFactors(lambda x: rows(x.mean(2)), lambda g: rows(g.sum(2)))
        >>> merged.unfold(torch.tensor([[[[1.0], [3.0]]]])).flatten(), merged.arrange(torch.ones(1, 1, 2, 1)).flatten()
        (tensor([2.]), tensor([2.]))
    """

    unfold: Callable[[Tensor], Tensor]
    arrange: Callable[[Tensor], Tensor]
    shortcut: Shortcut | None = None


@dataclass(frozen=True)
class OuterFactors:
    r"""The factors :math:`\sum_{s,r} g \otimes a` of a weight, or :math:`\sum_{s,r} a \otimes g` if `input_rows`.

    Arguments:
        inputs: The layer's input with its sample axis, shape (N, S, ...).
        unfold: Linear map from inputs (N, S, ...) to ``a`` (N, S, R, Q, D).
        arrange: Linear map from output gradients (N, S, ...) to ``g`` (N, S, R, Q, G).
        input_rows: Whether the weight's rows are indexed by the input (transposed convolution), not by the output.
        block: (position, number): the block, among equal blocks of the parameter's rows, that this call uses.
        fold: Number of rows of the inner batch per datum and sample; they join R.
        merged: The same rows reduced over group elements; None for a layer without them.
        shortcut: A faster way to the Gram matrix of the rows ``a``, if there is one.

    Example:
        >>> import torch
        >>> from covary.curvature import OuterFactors
        >>> def tokens(features):  # (N, S, D) -> (N, S, R, Q, D)
        ...     return features[:, :, None, None]
        >>> x = torch.tensor([[[1.0, 2.0]]])  # one datum, one sample, two inputs of a linear layer
        >>> OuterFactors(x, tokens, tokens).vjp(torch.tensor([[[3.0]]]))  # with the gradient of its one output
        tensor([[3., 6.]])
    """

    inputs: Float[Tensor, "NF S *features"]
    unfold: Callable[[Tensor], Tensor]
    arrange: Callable[[Tensor], Tensor]
    input_rows: bool = False
    block: tuple[int, int] = (0, 1)
    fold: int = 1
    merged: MergedFactors | None = None
    shortcut: Shortcut | None = None

    def input_shortcut(self, *, merge: bool = True) -> Shortcut | None:
        """The faster way to the Gram matrix of the rows ``a``, merged or not; None if there is none."""
        return self.merged.shortcut if self.merged is not None and merge else self.shortcut

    def input_gram(self, shortcut: Shortcut, weights: Float[Tensor, "N S"] | None = None) -> Float[Tensor, "Q D D"]:
        r"""The sum :math:`\sum_{n,r} \bar a \bar a^\top` by a shortcut; weights as in `averaged_inputs`."""
        return shortcut.gram(_sample_mean(self.inputs, weights))

    def averaged_inputs(
        self, weights: Float[Tensor, "N S"] | None = None, *, samples: slice = ALL, merge: bool = True
    ) -> Float[Tensor, "N R Q D"]:
        r"""The mean over samples :math:`\bar a`, taken before unfolding: memory does not grow with S.

        Arguments:
            weights: The weight of each sample, rows summing to 1; 1/S by default.
            samples: The samples that the mean is over.
            merge: Whether the mean is also over group elements, for a layer that has them.
        """
        inputs = _sample_mean(self.inputs, weights, samples)
        unfold = self.merged.unfold if self.merged is not None and merge else self.unfold
        return _join_fold(unfold(inputs), self.fold).squeeze(1)

    def summed_gradients(
        self, gradient: Float[Tensor, "NF S *outputs"], *, samples: slice = ALL, merge: bool = True
    ) -> Float[Tensor, "N R Q G"]:
        r"""The sum over samples :math:`\bar g`, and over group elements; sample weights are in the gradient already."""
        chosen = gradient[:, samples]
        total = chosen if chosen.shape[1] == 1 else chosen.sum(1, keepdim=True)
        arrange = self.merged.arrange if self.merged is not None and merge else self.arrange
        return _join_fold(arrange(total), self.fold).squeeze(1)

    def sample_inputs(self, *, merge: bool = True) -> Float[Tensor, "N S R Q D"]:
        """The rows ``a`` of every sample; with `merge` their mean over group elements, for a layer that has them."""
        unfold = self.merged.unfold if self.merged is not None and merge else self.unfold
        return _join_fold(unfold(self.inputs), self.fold)

    def sample_gradients(
        self, gradient: Float[Tensor, "NF S *outputs"], *, merge: bool = True
    ) -> Float[Tensor, "N S R Q G"]:
        """The rows ``g`` of every sample; with `merge` their sum over group elements."""
        arrange = self.merged.arrange if self.merged is not None and merge else self.arrange
        return _join_fold(arrange(gradient), self.fold)

    def vjp(self, gradient: Float[Tensor, "NF S *outputs"], rows: slice = ALL) -> Float[Tensor, "n P"]:
        r"""The vector–Jacobian products :math:`\hat J_n^\top v` of the data in `rows`."""
        rows = _fold_rows(rows, self.fold)
        a = _join_fold(self.unfold(self.inputs[rows]), self.fold)
        g = _join_fold(self.arrange(gradient[rows]), self.fold)
        left, right = (a, g) if self.input_rows else (g, a)
        return _place(torch.einsum("nsrqi,nsrqj->nqij", left, right).flatten(1), self.block)

    def summed_vjp(self, gradient: Float[Tensor, "NF S *outputs"]) -> Float[Tensor, " P"]:
        r"""The sum :math:`\sum_n \hat J_n^\top v` over all data, without the products of each."""
        a, g = self.sample_inputs(merge=False), self.sample_gradients(gradient, merge=False)
        left, right = (a, g) if self.input_rows else (g, a)
        return _place(torch.einsum("nsrqi,nsrqj->qij", left, right).reshape(1, -1), self.block)[0]


@dataclass(frozen=True)
class LookupFactors:
    r"""The factors of a table (V, D) whose row ``index`` is the layer's output: ``a`` is one-hot, rows are inputs.

    Arguments:
        index: The rows looked up, shape (N, S, R); a negative index marks a position without gradient.
        num_rows: The number V of rows of the table.
        dtype: The dtype of the table and its factors.
        fold: As in `OuterFactors`.

    Example:
        >>> import torch
        >>> from covary.curvature import LookupFactors
        >>> factors = LookupFactors(torch.tensor([[[2, 0]]]), num_rows=3, dtype=torch.float32)
        >>> factors.vjp(torch.tensor([[[[5.0], [7.0]]]]))  # gradients of the two selected rows
        tensor([[7., 0., 5.]])
    """

    index: Int[Tensor, "NF S R"]
    num_rows: int
    dtype: torch.dtype
    fold: int = 1

    def averaged_inputs(
        self, weights: Float[Tensor, "N S"] | None = None, *, samples: slice = ALL
    ) -> Float[Tensor, "N R 1 V"]:
        r"""The mean over samples of the one-hot vectors, dense; arguments as in `OuterFactors`."""
        average = _sample_mean(self._one_hot(), weights, samples)
        return _join_fold(average.unsqueeze(3), self.fold).squeeze(1)

    def summed_gradients(
        self, gradient: Float[Tensor, "NF S *outputs"], *, samples: slice = ALL
    ) -> Float[Tensor, "N R 1 D"]:
        r"""The sum over samples :math:`\bar g`."""
        arranged = self._arrange(gradient)[:, samples].sum(1, keepdim=True).unsqueeze(3)
        return _join_fold(arranged, self.fold).squeeze(1)

    def sample_inputs(self, *, merge: bool = True) -> Float[Tensor, "N S R 1 V"]:
        """The one-hot vectors of every sample, dense; there are no group elements to merge."""
        return _join_fold(self._one_hot().unsqueeze(3), self.fold)

    def sample_gradients(
        self, gradient: Float[Tensor, "NF S *outputs"], *, merge: bool = True
    ) -> Float[Tensor, "N S R 1 D"]:
        """The gradients of the selected rows of every sample."""
        return _join_fold(self._arrange(gradient).unsqueeze(3), self.fold)

    @property
    def num_used(self) -> int:
        """Number of pairs (n, r) that select a row in at least one sample."""
        return int((self.index >= 0).any(1).sum())

    def counts(self, weights: Float[Tensor, "N FR 1"] | None = None) -> Float[Tensor, " V"]:
        """Number of times that each row was selected: the diagonal of the input factor where S = 1.

        Arguments:
            weights: The weight of each position; 1 by default.
        """
        used = self.index >= 0
        seen = self.index[used]
        if weights is None:  # integers, which do not round
            return torch.bincount(seen, minlength=self.num_rows).to(self.dtype)
        counted = weights.reshape(self.index.shape)[used]
        return counted.new_zeros(self.num_rows).index_add(0, seen, counted)

    def vjp(self, gradient: Float[Tensor, "NF S *outputs"], rows: slice = ALL) -> Float[Tensor, "n P"]:
        r"""The vector–Jacobian products :math:`\hat J_n^\top v` of the data in `rows`."""
        rows = _fold_rows(rows, self.fold)
        index = self.index[rows].clamp(min=0).flatten(1)
        values = self._arrange(gradient)[rows].flatten(1, 2)
        table = values.new_zeros(len(index), self.num_rows, values.shape[-1])
        table = table.scatter_add(1, index.unsqueeze(-1).expand_as(values), values)
        return table.unflatten(0, (-1, self.fold)).sum(1).flatten(1)

    def summed_vjp(self, gradient: Float[Tensor, "NF S *outputs"]) -> Float[Tensor, " P"]:
        r"""The sum :math:`\sum_n \hat J_n^\top v` over all data, without the products of each."""
        values = self._arrange(gradient).flatten(0, 2)
        table = values.new_zeros(self.num_rows, values.shape[-1])
        return table.index_add(0, self.index.clamp(min=0).flatten(), values).flatten()

    def _one_hot(self) -> Float[Tensor, "NF S R V"]:
        one_hot = torch.nn.functional.one_hot(self.index.clamp(min=0), self.num_rows)
        return (one_hot * (self.index >= 0).unsqueeze(-1)).to(self.dtype)

    def _arrange(self, gradient: Tensor) -> Tensor:
        arranged = gradient.reshape(*self.index.shape, -1)
        return arranged * (self.index >= 0).unsqueeze(-1)


@dataclass(frozen=True)
class DirectVJP:
    r"""The vector–Jacobian product of a small parameter, computed directly.

    Arguments:
        function: Linear map from output gradients (N, S, ...) to :math:`\hat J_n^\top v`, shape (N, P), summed
            over s, r.
        additive: Whether the parameter is added to the layer's output, so that its product is the sum of the
            weight's rows g; with one row per datum its block is the weight's factor and is not computed again.
        block: As in `OuterFactors`.
        fold: As in `OuterFactors`.

    Example:
        >>> import torch
        >>> from covary.curvature import DirectVJP
        >>> bias = DirectVJP(lambda gradient: gradient.sum(1))  # sum over samples, of a layer y = x + b
        >>> bias.vjp(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[4., 6.]])
    """

    function: Callable[[Tensor], Tensor]
    additive: bool = False
    block: tuple[int, int] = (0, 1)
    fold: int = 1

    def vjp(self, gradient: Float[Tensor, "NF S *outputs"], rows: slice = ALL) -> Float[Tensor, "n P"]:
        r"""The vector–Jacobian products :math:`\hat J_n^\top v` of the data in `rows`."""
        products = self.function(gradient).unflatten(0, (-1, self.fold)).sum(1)
        return _place(products[rows], self.block)

    def summed_vjp(self, gradient: Float[Tensor, "NF S *outputs"]) -> Float[Tensor, " P"]:
        r"""The sum :math:`\sum_n \hat J_n^\top v` over all data."""
        return _place(self.function(gradient).sum(0, keepdim=True), self.block)[0]


JacobianFactors = OuterFactors | LookupFactors | DirectVJP


def _sample_mean(
    values: Float[Tensor, "NF S *features"], weights: Float[Tensor, "N S"] | None, samples: slice = ALL
) -> Float[Tensor, "NF 1 *features"]:
    """The mean over the chosen samples, weighted where weights are given."""
    chosen = values[:, samples]
    if chosen.shape[1] == 1:  # one sample is its own mean, and needs no copy
        return chosen
    if weights is None:
        return chosen.mean(1, keepdim=True)
    own = weights[:, samples].to(values)
    rows = (own / own.sum(1, keepdim=True)).repeat_interleave(len(values) // len(weights), dim=0)  # of folded rows
    return torch.einsum("ns,ns...->n...", rows, chosen).unsqueeze(1)


def _join_fold(a: Float[Tensor, "NF S R Q D"], fold: int) -> Float[Tensor, "N S FR Q D"]:
    """The same rows with the folded axis moved from the data into R."""
    if fold == 1:
        return a
    return a.unflatten(0, (-1, fold)).transpose(1, 2).flatten(2, 3)


def _fold_rows(rows: slice, fold: int) -> slice:
    if rows == ALL:
        return rows
    return slice(rows.start * fold, rows.stop * fold)


def _place(products: Float[Tensor, "N p"], block: tuple[int, int]) -> Float[Tensor, "N P"]:
    """The products of the whole parameter, zero outside the given block of its rows."""
    position, number = block
    if number == 1:  # padding by nothing would copy
        return products
    width = products.shape[1]
    return torch.nn.functional.pad(products, (position * width, (number - 1 - position) * width))
