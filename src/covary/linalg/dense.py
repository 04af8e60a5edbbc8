"""Dense matrices."""

from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import NotPositiveDefiniteError
from .checks import check_entries, check_factor, check_scale, check_vectors, describe, require_positive
from .diagonal import Diagonal
from .eigen import Factors
from .gram import Gram, as_gram
from .psd import AbstractPSD, Shifts, check_matching, is_vector, refined, single_shift


@final
class Dense(AbstractPSD):
    r"""The matrix :math:`H` with all of its entries.

    All scalar shifts use one eigen-decomposition :math:`H = V \mathrm{diag}(\lambda) V^\top`; a shift per row, which
    changes the eigenvectors, uses a Cholesky factor :math:`L L^\top = H + \mathrm{diag}(\delta)` of its own.

    Arguments:
        matrix: The symmetric positive semi-definite entries, shape (P, P), or the `Gram` sum that they are.
        name: The name of the matrix in messages.

    Example:
        >>> import torch
        >>> from covary.linalg import Dense
        >>> matrix = Dense(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        >>> matrix.solve(torch.tensor([4.0, 4.0]), shift=1.0)
        tensor([1., 1.])
    """

    def __init__(self, matrix: Float[Tensor, "..."] | Gram, *, name: str = "") -> None:
        self.gram = as_gram(matrix)
        self.matrix = self.gram.matrix
        check_factor(self.matrix, (2,), describe(name))
        self.name = name
        self.factors = Factors({"": self.gram})

    @property
    def size(self) -> int:
        """The number of rows P."""
        return self.matrix.shape[0]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The matrix, as a tuple of one."""
        return (self.matrix,)

    def matvec(self, vectors: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        """Products :math:`H v`."""
        check_vectors(vectors, self.size, describe(self.name))
        return vectors @ self.matrix.mT

    def to_dense(self) -> Float[Tensor, "P P"]:
        """All entries of :math:`H`."""
        return self.matrix

    def diagonal(self) -> Float[Tensor, " P"]:
        """The diagonal of :math:`H`."""
        return self.matrix.diagonal()

    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\sum_i H_{ii}`."""
        return self.matrix.trace()

    def logdet(self, shift: Shifts = 0.0) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\sum_i \log(\lambda_i + \delta)`, or :math:`2 \sum_i \log L_{ii}`."""
        if is_vector(shift):
            return 2 * self._cholesky(shift).diagonal().log().sum()
        return self._shifted(shift).log().sum()

    def solve(self, vectors: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Solutions :math:`(H + \delta)^{-1} v`."""
        label = describe(self.name)
        check_vectors(vectors, self.size, label)
        return refined(self, vectors, single_shift(shift, self.size, label), self._inverse(shift))

    @torch.no_grad()
    def sample(self, noise: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Samples :math:`(H + \delta)^{-1/2} \epsilon`, or :math:`L^{-\top} \epsilon`; without graph."""
        check_vectors(noise, self.size, describe(self.name))
        if is_vector(shift):
            columns = noise.reshape(-1, self.size).mT
            samples: Tensor = torch.linalg.solve_triangular(self._cholesky(shift).mT, columns, upper=True)
            return samples.mT.reshape(noise.shape)
        return self._rotated(noise, self._shifted(shift).rsqrt())

    def effective_dimension(self, shift: Shifts) -> Float[Tensor, ""]:
        r"""The effective number of dimensions :math:`\mathrm{tr}(H (H + \delta)^{-1})`."""
        if is_vector(shift):
            return (torch.cholesky_inverse(self._cholesky(shift)) * self.matrix).sum()
        return (self._values() / self._shifted(shift)).sum()

    @torch.no_grad()
    def half_logdet_cotangents(self, shift: Shifts) -> tuple[Tensor, ...]:
        r"""The derivative :math:`\tfrac12 (H + \delta)^{-1}`, without graph."""
        if is_vector(shift):
            return (torch.cholesky_inverse(self._cholesky(shift)) / 2,)
        vectors = self.factors.spectra(self.name)[0].vectors
        return ((vectors * (0.5 / self._shifted(shift))) @ vectors.mT,)

    def map(self, function: TensorMap) -> "Dense":
        """The matrix with the function applied to its entries."""
        return Dense(self.gram.map(function), name=self.name)

    def accumulate(self, other: AbstractPSD) -> "Dense":
        """The sum: Gram matrices are additive over data."""
        check_matching(self, other, lambda value: value.size)
        assert isinstance(other, Dense)
        return Dense(self.gram + other.gram, name=self.name)

    def __add__(self, other: object) -> "Dense":
        """The sum with a dense or a diagonal matrix."""
        if not isinstance(other, Dense | Diagonal):
            return NotImplemented
        return self.accumulate(Dense(other.to_dense()))

    def __radd__(self, other: object) -> "Dense":
        """The sum with a diagonal matrix on the left."""
        return self + other if isinstance(other, Diagonal) else NotImplemented

    def __mul__(self, scale: float | int | Float[Tensor, ""]) -> "Dense":
        """The matrix times a number that is at least 0."""
        check_scale(scale, describe(self.name))
        return Dense(self.matrix * scale, name=self.name)

    def _values(self) -> Float[Tensor, " P"]:
        r"""The eigenvalues :math:`\lambda_i`, with their derivative."""
        return self.factors.values(self.name)[0]

    def _shifted(self, shift: Shifts) -> Float[Tensor, " P"]:
        r"""The eigenvalues :math:`\lambda_i + \delta`, each above zero."""
        label = describe(self.name)
        return require_positive(self._values() + single_shift(shift, self.size, label), label)

    def _cholesky(self, shift: Tensor) -> Float[Tensor, "P P"]:
        r"""The lower triangular root L of :math:`H + \mathrm{diag}(\delta)`."""
        label = describe(self.name)
        single_shift(shift, self.size, label)
        check_entries(self.matrix.detach(), label)
        root: Tensor
        root, info = torch.linalg.cholesky_ex(self.matrix.diagonal_scatter(self.matrix.diagonal() + shift))
        if int(info) != 0 or not bool(torch.isfinite(root.detach()).all()):
            raise NotPositiveDefiniteError(
                f"Expected {label} plus its shift to be positive definite, but its Cholesky factor fails at row "
                f"{int(info)}; the smallest shift is {shift.min().item():.3e}. Increase the shift (prior precision) "
                "of this block, or compute its matrix in float64."
            )
        return root

    @torch.no_grad()
    def _inverse(self, shift: Shifts) -> TensorMap:
        r"""The linear map :math:`v \mapsto (H + \delta)^{-1} v`, constant in H and shift."""
        if is_vector(shift):
            return partial(_cholesky_solve, root=self._cholesky(shift))
        return partial(self._rotated, weights=self._shifted(shift).reciprocal())

    def _rotated(self, vectors: Float[Tensor, "*batch P"], weights: Float[Tensor, " P"]) -> Float[Tensor, "*batch P"]:
        r"""Products :math:`V \mathrm{diag}(w) V^\top v`."""
        basis = self.factors.spectra(self.name)[0].vectors
        return ((vectors @ basis) * weights) @ basis.mT


def _cholesky_solve(vectors: Float[Tensor, "*batch P"], root: Float[Tensor, "P P"]) -> Float[Tensor, "*batch P"]:
    r"""Solutions :math:`(L L^\top)^{-1} v`."""
    return torch.cholesky_solve(vectors.reshape(-1, root.shape[0]).mT, root).mT.reshape(vectors.shape)
