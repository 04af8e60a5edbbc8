"""Diagonal matrices."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import NotPositiveDefiniteError, ShapeError
from .checks import check_scale, check_vectors, describe, require_positive
from .eigen import Factors
from .psd import AbstractPSD, check_matching
from .shift import Shifts, single_shift


@final
class Diagonal(AbstractPSD):
    r"""The matrix :math:`H = \mathrm{diag}(d)`.

    Arguments:
        values: The diagonal d, not negative, shape (P,).
        name: How messages call the matrix.
    """

    def __init__(self, values: Float[Tensor, "..."], *, name: str = "") -> None:
        if values.ndim != 1 or values.numel() == 0:
            raise ShapeError(
                f"The diagonal of {describe(name)} must have shape (P,) with P at least 1; {tuple(values.shape)} came. "
                "Flatten it in the order of the rows."
            )
        self.values = values
        self.name = name
        self.factors = Factors({})  # a diagonal is its own decomposition

    @property
    def size(self) -> int:
        """The number of rows P."""
        return self.values.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The type of the entries."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return self.values.device

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The diagonal, alone in a tuple."""
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
        """The diagonal matrix of the function of d."""
        return Diagonal(function(self.values), name=self.name)

    def accumulate(self, other: AbstractPSD) -> "Diagonal":
        """The sum: diagonals are additive over data."""
        check_matching(self, other, lambda value: value.size)
        assert isinstance(other, Diagonal)
        return Diagonal(self.values + other.values, name=self.name)

    def __add__(self, other: object) -> "Diagonal":
        """The sum of two diagonal matrices; `Dense` answers for its own."""
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
                f"The diagonal of {label} has values from {self.values.min().item():.3e} to "
                f"{self.values.max().item():.3e}; finite ones, at least 0, were expected. Build it from squares, and "
                "look for inf or nan in the data and the weights."
            )
        return require_positive(self.values + single_shift(shift, self.size, label), label)
