"""The interface of structured symmetric positive semi-definite matrices, and the shifts of their diagonals."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeGuard, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import ShapeError, StructureError

Shift = float | int | Float[Tensor, ""] | Float[Tensor, " _"]  # a number, or a vector with one per row of H
Shifts = Shift | Mapping[str, Shift]  # a shift, or one per named block
Statistics = tuple[Tensor, ...] | dict[str, tuple[Tensor, ...]]  # of one matrix, or per named block
Value = TypeVar("Value", bound="AbstractPSD")  # beartype knows `Self` only in classes it decorates whole


class AbstractPSD(ABC):
    r"""A symmetric positive semi-definite matrix :math:`H`, shape (P, P), in a structured representation.

    `name` identifies it in messages. Derivatives of `logdet`, `solve` and `effective_dimension` with respect to
    `tensors` and shift are exact to first order.

    Example:
        >>> import torch
        >>> from covary.linalg import AbstractPSD, Kron
        >>> matrix: AbstractPSD = Kron(2 * torch.eye(3), torch.eye(2))
        >>> matrix.size, float(matrix.trace()), float(matrix.effective_dimension(shift=2.0))
        (6, 12.0, 3.0)
    """

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of rows P."""

    @property
    @abstractmethod
    def tensors(self) -> Statistics:
        """The tensors that define the matrix; of a `Block` a dict from its names to theirs."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the entries."""
        return self._first_tensor.dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return self._first_tensor.device

    @abstractmethod
    def matvec(self, vectors: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch P"]:
        """Products :math:`H v`."""

    @abstractmethod
    def to_dense(self) -> Float[Tensor, "P P"]:
        """All entries of :math:`H`."""

    @abstractmethod
    def diagonal(self) -> Float[Tensor, " P"]:
        """The diagonal of :math:`H`."""

    @abstractmethod
    def trace(self) -> Float[Tensor, ""]:
        r"""The trace :math:`\sum_i H_{ii}`."""

    @abstractmethod
    def logdet(self, shift: Shifts = 0.0) -> Float[Tensor, ""]:
        r"""The log-determinant :math:`\log|H + \delta|`, with positive sign."""

    @abstractmethod
    def solve(self, vectors: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Solutions :math:`(H + \delta)^{-1} v`."""

    @abstractmethod
    def sample(self, noise: Float[Tensor, "*batch P"], shift: Shifts = 0.0) -> Float[Tensor, "*batch P"]:
        r"""Samples :math:`S \epsilon` of :math:`N(0, (H + \delta)^{-1})`, where :math:`S S^\top = (H + \delta)^{-1}`.

        Linear in the standard normal noise; without graph.
        """

    @abstractmethod
    def effective_dimension(self, shift: Shifts) -> Float[Tensor, ""]:
        r"""The effective number of dimensions :math:`\mathrm{tr}(H (H + \delta)^{-1})`, between 0 and P."""

    @abstractmethod
    def half_logdet_cotangents(self, shift: Shifts) -> Statistics:
        r"""Derivatives of :math:`\tfrac12 \log|H + \delta|`, aligned with `tensors`; in closed form, without graph."""

    @abstractmethod
    def map(self: Value, function: TensorMap) -> Value:
        """The same structure with the function applied to every additive statistic."""

    @abstractmethod
    def accumulate(self: Value, other: "AbstractPSD") -> Value:
        """The matrix of the data of both: what one pass over all of them would give."""

    @abstractmethod
    def __add__(self, other: object) -> "AbstractPSD":
        """The exact sum of two matrices, if the structure is closed under sums."""

    @abstractmethod
    def __mul__(self: Value, scale: float | int | Float[Tensor, ""]) -> Value:
        """The matrix times a number that is at least 0."""

    def __rmul__(self: Value, scale: float | int | Float[Tensor, ""]) -> Value:
        """The matrix times a number that is at least 0."""
        return self * scale

    def named(self: Value, name: str) -> Value:
        """The same matrix, decomposition included, with another name."""
        twin = copy.copy(self)
        twin.name = name
        return twin

    @property
    def _first_tensor(self) -> Tensor:
        tensors = self.tensors
        return (next(iter(tensors.values())) if isinstance(tensors, dict) else tensors)[0]


def refined(
    value: AbstractPSD, vectors: Float[Tensor, "*batch P"], shift: Shift, inverse: TensorMap, *, exact: bool = True
) -> Float[Tensor, "*batch P"]:
    r"""Solutions :math:`x = x_0 + S(v - (H + \delta) x_0)`, where :math:`S = (H + \delta)^{-1}` carries no graph.

    One step of iterative refinement from :math:`x_0 = S v`. Its derivative :math:`S(dv - (dH + d\delta)\, x_0)` is
    that of the exact solution, so the decomposition behind S is not differentiated.

    Arguments:
        inverse: The linear map S.
        exact: Whether S inverts the matrix that `value` multiplies with; else the step adds its derivative alone.
    """
    with torch.no_grad():
        start: Tensor = inverse(vectors)
    residual = vectors - value.matvec(start) - shift * start
    return start + inverse(residual if exact else residual - residual.detach())


def check_matching(left: AbstractPSD, right: AbstractPSD, shapes: Callable[[AbstractPSD], object]) -> None:
    """Raise an error unless two matrices have the same structure and the same `shapes`."""
    if type(left) is not type(right):
        raise StructureError(
            f"Expected statistics of the same structure, {type(left).__name__}, got {type(right).__name__}. "
            "Compute both with the same curvature."
        )
    if shapes(left) != shapes(right):
        raise ShapeError(
            f"Expected statistics of the same shapes, got {shapes(left)} and {shapes(right)}. "
            "Compute both for the same parameters."
        )


def is_vector(shift: Shifts) -> TypeGuard[Tensor]:
    """Whether the shift is a vector with one number per row."""
    return isinstance(shift, Tensor) and shift.ndim == 1


def single_shift(shift: Shifts, size: int, label: str) -> Shift:
    """The shift of one matrix with `size` rows, after a check that it is a number or has one number per row."""
    if isinstance(shift, Mapping):
        raise StructureError(
            f"The shift of {label} must be a number or a tensor, got a mapping with keys {sorted(shift)}. "
            "Pass the entry of this block alone."
        )
    if isinstance(shift, Tensor) and shift.shape not in ((), (size,)):
        raise ShapeError(
            f"The shift of {label} must have shape () or ({size},), got {tuple(shift.shape)}. "
            "Pass one number, or one per row of the matrix."
        )
    return shift
