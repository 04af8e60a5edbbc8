"""Kronecker products of two symmetric matrices, one or a block diagonal of them."""

from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import ShapeError, StructureError
from .checks import check_factor, check_scale, check_vectors, describe, require_positive
from .eigen import Factors, Spectrum
from .gram import Gram, as_gram
from .psd import AbstractPSD, Shift, Shifts, check_matching, is_vector, refined, single_shift


@final
class Kron(AbstractPSD):
    r"""The matrix :math:`H = \mathrm{blockdiag}_q(B_q \otimes A_q / c_q)`, size P = Q · G · D.

    Rows follow `weight.flatten()` of a weight (Q · G, D). With eigenvalues :math:`a_{qi}, b_{qj}` of the factors,
    those of H are :math:`\lambda_{qji} = b_{qj} a_{qi} / c`: exact, and cubic in D and G instead of their product.
    A, B and c are sums over data; without data, c = 0 and A = B = 0, it is the zero matrix. If A and B are the partial
    traces of a matrix, :math:`c_q = \mathrm{tr} A_q = \mathrm{tr} B_q` gives the product with the same partial traces
    (*traced*): the count is then not a statistic of its own, and derivatives go through it.

    Arguments:
        input_cov: The factor A, (D, D), shared by all blocks, or (Q, D, D); a tensor or a `Gram`.
        grad_cov: The factor B, (G, G), shared by all blocks, or (Q, G, G); a tensor or a `Gram`.
        count: The number c of terms in each sum, one for all blocks or (Q,); None for the common trace of A and B as
            partial traces, computed from A, block by block, or from B if all blocks share B alone.
        estimated: Whether A and B are unbiased estimates of positive semi-definite matrices (cross products of
            independent samples), whose negative eigenvalues are noise and are set to zero.
        name: The name of the matrix in messages.

    Example:
        >>> import torch
        >>> from covary.linalg import Kron
        >>> matrix = Kron(torch.diag(torch.tensor([1.0, 3.0])), torch.diag(torch.tensor([2.0, 4.0])), count=2)
        >>> matrix.diagonal()
        tensor([1., 3., 2., 6.])
        >>> round(float(matrix.logdet(shift=1.0)), 3)
        5.124
    """

    def __init__(
        self,
        input_cov: Float[Tensor, "..."] | Gram,
        grad_cov: Float[Tensor, "..."] | Gram,
        count: float | int | Float[Tensor, "*Q"] | None = 1.0,
        *,
        estimated: bool = False,
        name: str = "",
    ) -> None:
        self.grams = as_gram(input_cov), as_gram(grad_cov)
        self.input_cov, self.grad_cov = (gram.matrix for gram in self.grams)
        check_factor(self.input_cov, (2, 3), describe(name, "input_cov"))
        check_factor(self.grad_cov, (2, 3), describe(name, "grad_cov"))
        _check_blocks(self.input_cov, self.grad_cov, describe(name))
        kind, place = self.input_cov.dtype, self.input_cov.device
        self.count = None if count is None else torch.as_tensor(count, dtype=kind, device=place)
        self.estimated = estimated
        self.name = name
        stacks = [Gram(self._stack(gram.matrix), gram.rows) for gram in self.grams]
        self.factors = Factors(dict(zip(("input_cov", "grad_cov"), stacks, strict=True)), estimated=estimated)
        if self.count is not None:
            _check_count(self.count, self._shape[0], self.tensors, describe(name))

    @property
    def traced(self) -> bool:
        """Whether the factors are partial traces and the count is their trace."""
        return self.count is None

    @property
    def size(self) -> int:
        """The number of rows P = Q · G · D."""
        num_blocks, num_rows, num_columns = self._shape
        return num_blocks * num_rows * num_columns

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The factors (A, B)."""
        return (self.input_cov, self.grad_cov)

    def matvec(self, vectors: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        r"""Products :math:`B_q X_q A_q^\top / c`, where v consists of the rows of the matrices :math:`X_q`."""
        a, b = self._stack(self.input_cov), self._stack(self.grad_cov)
        return (self.scale[:, None, None] * (b @ self._folded(vectors) @ a.mT)).reshape(vectors.shape)

    def to_dense(self) -> Float[Tensor, "P P"]:
        """All entries of :math:`H`."""
        num_blocks = self._shape[0]
        a = self._stack(self.input_cov).expand(num_blocks, -1, -1)
        b = self._stack(self.grad_cov).expand(num_blocks, -1, -1) * self.scale[:, None, None]
        return torch.block_diag(*(torch.kron(b[q], a[q]) for q in range(num_blocks)))

    def diagonal(self) -> Float[Tensor, " P"]:
        """The diagonal of :math:`H`."""
        a = self._stack(self.input_cov).diagonal(dim1=-2, dim2=-1)
        b = self._stack(self.grad_cov).diagonal(dim1=-2, dim2=-1)
        return self._products(a, b).flatten()

    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\sum_q \mathrm{tr} B_q \, \mathrm{tr} A_q / c`."""
        a = self._stack(self.input_cov).diagonal(dim1=-2, dim2=-1).sum(-1)
        b = self._stack(self.grad_cov).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (self.scale * b * a).sum()

    def logdet(self, shift: Shifts = 0.0) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\sum_{qji} \log(b_{qj} a_{qi} / c + \delta)`; the shift is one number."""
        return self._shifted(shift).log().sum()

    def solve(self, vectors: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Solutions :math:`(H + \delta)^{-1} v`."""
        check_vectors(vectors, self.size, describe(self.name))
        with torch.no_grad():
            weights = self._paired(shift).reciprocal()
        inverse = partial(self._rotated, weights=weights)
        # the products of an estimate have the negative eigenvalues that its inverse does without
        return refined(self, vectors, self._scalar(shift), inverse, exact=not self.estimated)

    @torch.no_grad()
    def sample(self, noise: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Samples :math:`(H + \delta)^{-1/2} \epsilon`, with the symmetric root; without graph."""
        check_vectors(noise, self.size, describe(self.name))
        return self._rotated(noise, self._paired(shift).rsqrt())

    def effective_dimension(self, shift: Shifts) -> Float[Tensor, ""]:
        r"""The effective number of dimensions :math:`\sum_{qji} \lambda_{qji} / (\lambda_{qji} + \delta)`."""
        return (self._values() / self._shifted(shift)).sum()

    @torch.no_grad()
    def half_logdet_cotangents(self, shift: Shifts) -> tuple[Tensor, ...]:
        r"""Derivatives with respect to (A, B), without graph.

        With :math:`R = 1 / (\lambda + \delta)` and eigenvectors V of :math:`A_q`, that of :math:`A_q` is
        :math:`\tfrac12 V \mathrm{diag}_i(\sum_j R_{qji} b_{qj} / c) V^\top`, summed over q if A is shared. If c is
        the trace of A, :math:`-\tfrac{1}{2c} (\sum_{ji} R_{qji} \lambda_{qji}) I` is added: a larger trace makes all of
        H smaller.
        """
        a, b = self._spectra()
        half = 0.5 * self.scale[:, None, None] / self._shifted(shift)
        weights_a = (half * b.values[:, :, None]).sum(1)
        weights_b = (half * a.values[:, None, :]).sum(2)
        if self.traced:
            less = self.scale * (weights_a * a.values).sum(-1).sum_to_size(self.scale.shape)
            if self._traced_factor is self.input_cov:
                weights_a = weights_a.sum_to_size(a.values.shape) - less[:, None]
            else:
                weights_b = weights_b.sum_to_size(b.values.shape) - less[:, None]
        return (
            _cotangent(a, weights_a).reshape(self.input_cov.shape),
            _cotangent(b, weights_b).reshape(self.grad_cov.shape),
        )

    def map(self, function: TensorMap) -> "Kron":
        """The same structure with the function applied to A, B and the count, if there is one."""
        input_cov, grad_cov = (gram.map(function) for gram in self.grams)
        count = None if self.count is None else function(self.count)
        return Kron(input_cov, grad_cov, count, estimated=self.estimated, name=self.name)

    def accumulate(self, other: AbstractPSD) -> "Kron":
        """The matrix of the data of both: sums of A, B and the count, if there is one, not of the products."""
        check_matching(self, other, lambda value: [tuple(t.shape) for t in value.tensors if isinstance(t, Tensor)])
        assert isinstance(other, Kron)
        if self.traced != other.traced:
            raise StructureError(
                f"Expected statistics of one kind for {describe(self.name)}, got plain factors and partial traces. "
                "Compute both with the same curvature."
            )
        input_cov, grad_cov = (mine + theirs for mine, theirs in zip(self.grams, other.grams, strict=True))
        estimated = self.estimated or other.estimated
        count = None if self.count is None or other.count is None else self.count + other.count
        return Kron(input_cov, grad_cov, count, estimated=estimated, name=self.name)

    def __add__(self, other: object) -> AbstractPSD:
        """Raise `TypeError`: the structure is not closed under sums."""
        raise TypeError(
            f"Kron + {type(other).__name__}: the sum of two Kronecker products is not a Kronecker product. "
            "Use accumulate to combine the statistics of two data sets, or add to_dense() explicitly."
        )

    __radd__ = __add__

    def __mul__(self, scale: float | int | Float[Tensor, ""]) -> "Kron":
        """The matrix times a number that is at least 0, as if every datum occurred that many times."""
        check_scale(scale, describe(self.name))
        return self.map(lambda statistic: statistic * scale)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """The numbers (Q, G, D)."""
        num_blocks = max(len(self._stack(self.input_cov)), len(self._stack(self.grad_cov)))
        return num_blocks, self.grad_cov.shape[-1], self.input_cov.shape[-1]

    @property
    def _traced_factor(self) -> Float[Tensor, "*Q n n"]:
        """The factor whose trace is the count."""
        return self.input_cov if self.input_cov.ndim == 2 or self.grad_cov.ndim == 3 else self.grad_cov

    @property
    def scale(self) -> Float[Tensor, " Qs"]:
        """The numbers 1 / c, or 0 without data; one if all blocks share it."""
        count = (self._trace() if self.count is None else self.count).reshape(-1)
        # the trace of an inactive path may be too small to divide by
        empty = count < torch.finfo(self.dtype).tiny ** 0.5 if self.traced else count == 0
        return torch.where(empty, 0.0, 1 / torch.where(empty, 1.0, count))

    def _trace(self) -> Float[Tensor, "*Q"]:
        """The trace of both factors; of an estimate the sum of its positive eigenvalues, which noise cannot cancel."""
        factor = self._traced_factor
        if not self.estimated:
            return factor.diagonal(dim1=-2, dim2=-1).sum(-1)
        a, b = self.factors.values(self.name)
        return (a if factor is self.input_cov else b).sum(-1)

    @staticmethod
    def _stack(factor: Float[Tensor, "*Q n n"]) -> Float[Tensor, "Qs n n"]:
        """The factor with a block axis, of length 1 if it is shared."""
        return factor if factor.ndim == 3 else factor[None]

    def _folded(self, vectors: Float[Tensor, "..."]) -> Float[Tensor, "*batch Q G D"]:
        """The vectors as matrices :math:`X_q`."""
        check_vectors(vectors, self.size, describe(self.name))
        return vectors.reshape(*vectors.shape[:-1], *self._shape)

    def _products(self, a: Float[Tensor, "Qa D"], b: Float[Tensor, "Qb G"]) -> Float[Tensor, "Q G D"]:
        """The numbers :math:`b_{qj} a_{qi} / c`."""
        return self.scale[:, None, None] * b[:, :, None] * a[:, None, :]

    def _spectra(self) -> tuple[Spectrum, Spectrum]:
        """The spectra of A and B, each with a block axis."""
        a, b = self.factors.spectra(self.name)
        return a, b

    def _values(self) -> Float[Tensor, "Q G D"]:
        r"""The eigenvalues :math:`\lambda_{qji}`, with their derivative."""
        a, b = self.factors.values(self.name)
        return self._products(a, b)

    def _scalar(self, shift: Shifts) -> Shift:
        """The shift, after a check that it is one number."""
        if is_vector(shift):
            raise StructureError(
                f"Expected one number as the shift of {describe(self.name)}, got shape {tuple(shift.shape)}: a "
                "Kronecker product plus a diagonal has no closed-form log-determinant. Use a scalar shift per block, "
                "or Dense / Diagonal curvature."
            )
        return single_shift(shift, self.size, describe(self.name))

    def _shifted(self, shift: Shifts) -> Float[Tensor, "Q G D"]:
        r"""The eigenvalues :math:`\lambda_{qji} + \delta`, each above zero."""
        number = self._scalar(shift)
        return require_positive(self._values() + number, describe(self.name))

    def _paired(self, shift: Shifts) -> Float[Tensor, "Q G D"]:
        r"""The eigenvalues :math:`\lambda_{qji} + \delta` as computed with the eigenvectors, not those of few rows."""
        a, b = self._spectra()
        return require_positive(self._products(a.values, b.values) + self._scalar(shift), describe(self.name))

    def _rotated(
        self, vectors: Float[Tensor, "*batch P"], weights: Float[Tensor, "Q G D"]
    ) -> Float[Tensor, "*batch P"]:
        r"""Products :math:`(V_B \otimes V_A) \mathrm{diag}(w) (V_B \otimes V_A)^\top v`."""
        a, b = self._spectra()
        rotated = weights * (b.vectors.mT @ self._folded(vectors) @ a.vectors)
        return (b.vectors @ rotated @ a.vectors.mT).reshape(vectors.shape)


def _cotangent(spectrum: Spectrum, weights: Float[Tensor, "Q n"]) -> Float[Tensor, "Qs n n"]:
    r"""Matrices :math:`V_q \mathrm{diag}(w_q) V_q^\top`; w is summed over q if the factor is shared."""
    weights = weights.sum_to_size(spectrum.values.shape)
    return (spectrum.vectors * weights[:, None, :]) @ spectrum.vectors.mT


def _check_blocks(input_cov: Tensor, grad_cov: Tensor, label: str) -> None:
    """Raise `ShapeError` if two factors have different numbers of blocks."""
    if input_cov.ndim == 3 and grad_cov.ndim == 3 and len(input_cov) != len(grad_cov):
        raise ShapeError(
            f"Expected factors of {label} with the same number of blocks, got {len(input_cov)} in input_cov and "
            f"{len(grad_cov)} in grad_cov. Pass a factor that all blocks share without the block axis."
        )


def _check_count(count: Tensor, num_blocks: int, factors: tuple[Tensor, ...], label: str) -> None:
    """Raise `StructureError` if a count is negative, of a wrong shape, or 0 with factors that are not zero."""
    fits = count.shape in {(), (num_blocks,)} and bool((count >= 0).all())
    if not fits or (bool((count == 0).any()) and any(bool(f.any()) for f in factors)):
        raise StructureError(
            f"The count of {label} must be one number above 0, or one per block, or 0 with factors that are zero, got "
            f"{count.tolist()}. Pass the number of terms that were summed into each factor."
        )
