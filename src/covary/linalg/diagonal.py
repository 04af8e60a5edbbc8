"""Diagonal matrices."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import NotPositiveDefiniteError, ShapeError
from .checks import check_scale, check_vectors, describe, require_positive
from .eigen import Factors
from .psd import AbstractPSD, Shifts, check_matching, single_shift


@final
class Diagonal(AbstractPSD):
    r"""The matrix :math:`H = \mathrm{diag}(d)`.

    Arguments:
        values: The diagonal d, not negative, shape (P,).
        name: The name of the matrix in messages.

    Example:
        >>> import torch
        >>> from covary.linalg import Diagonal
        >>> Diagonal(torch.tensor([1.0, 3.0])).effective_dimension(shift=1.0)
        tensor(1.2500)
    """

    def __init__(self, values: Float[Tensor, "..."], *, name: str = "") -> None:
        if values.ndim != 1 or values.numel() == 0:
            raise ShapeError(
                f"The diagonal of {describe(name)} must have shape (P,) with P at least 1, got {tuple(values.shape)}. "
                "Flatten it in the order of the rows."
            )
        self.values = values
        self.name = name
        self.factors = Factors({})  # needs no decomposition

    @property
    def size(self) -> int:
        """The number of rows P."""
        return self.values.shape[0]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The diagonal, as a tuple of one."""
        return (self.values,)

    def matvec(self, vectors: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        """Products :math:`d_i v_i`."""
        check_vectors(vectors, self.size, describe(self.name))
        return self.values * vectors

    def to_dense(self) -> Float[Tensor, "P P"]:
        """All entries of :math:`H`."""
        return torch.diag(self.values)

    def diagonal(self) -> Float[Tensor, " P"]:
        """The diagonal d."""
        return self.values

    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\sum_i d_i`."""
        return self.values.sum()

    def logdet(self, shift: Shifts = 0.0) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\sum_i \log(d_i + \delta_i)`."""
        return self._shifted(shift).log().sum()

    def solve(self, vectors: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Solutions :math:`v_i / (d_i + \delta_i)`."""
        check_vectors(vectors, self.size, describe(self.name))
        return vectors / self._shifted(shift)

    @torch.no_grad()
    def sample(self, noise: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Samples :math:`\epsilon_i / \sqrt{d_i + \delta_i}`, without graph."""
        check_vectors(noise, self.size, describe(self.name))
        return noise * self._shifted(shift).rsqrt()

    def effective_dimension(self, shift: Shifts) -> Float[Tensor, ""]:
        r"""The effective number of dimensions :math:`\sum_i d_i / (d_i + \delta_i)`."""
        return (self.values / self._shifted(shift)).sum()

    @torch.no_grad()
    def half_logdet_cotangents(self, shift: Shifts) -> tuple[Tensor, ...]:
        r"""The derivative :math:`\tfrac12 / (d_i + \delta_i)`, without graph."""
        return (0.5 / self._shifted(shift),)

    def map(self, function: TensorMap) -> "Diagonal":
        """The matrix with the function applied to its diagonal."""
        return Diagonal(function(self.values), name=self.name)

    def accumulate(self, other: AbstractPSD) -> "Diagonal":
        """The sum: diagonals are additive over data."""
        check_matching(self, other, lambda value: value.size)
        assert isinstance(other, Diagonal)
        return Diagonal(self.values + other.values, name=self.name)

    def __add__(self, other: object) -> "Diagonal":
        """The sum of two diagonal matrices; that with a `Dense` is defined there."""
        return self.accumulate(other) if isinstance(other, Diagonal) else NotImplemented

    def __mul__(self, scale: float | int | Float[Tensor, ""]) -> "Diagonal":
        """The matrix times a number that is at least 0."""
        check_scale(scale, describe(self.name))
        return Diagonal(self.values * scale, name=self.name)

    def _shifted(self, shift: Shifts) -> Float[Tensor, " P"]:
        r"""The eigenvalues :math:`d_i + \delta_i`, each above zero."""
        label = describe(self.name)
        if not bool(((self.values >= 0) & self.values.isfinite()).all()):
            raise NotPositiveDefiniteError(
                f"The diagonal of {label} must be finite and at least 0, got values from "
                f"{self.values.min().item():.3e} to {self.values.max().item():.3e}. Build it from squares, and check "
                "the data and the weights for inf or nan."
            )
        return require_positive(self.values + single_shift(shift, self.size, label), label)
