"""The interface that every structured symmetric positive semi-definite matrix keeps."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import TensorMap
from ..errors import ShapeError, StructureError
from .shift import Shift, Shifts

Statistics = tuple[Tensor, ...] | dict[str, tuple[Tensor, ...]]  # of one matrix, or per named block
Value = TypeVar("Value", bound="AbstractPSD")  # beartype knows `Self` only in classes it decorates whole


class AbstractPSD(ABC):
    r"""A symmetric positive semi-definite matrix :math:`H`, shape (P, P), held by its structure.

    `name` is how messages call it. Derivatives of `logdet`, `solve` and `effective_dimension` with respect to
    `tensors` and shift are exact to first order.
    """

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of rows P."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type of the entries."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the entries."""

    @property
    @abstractmethod
    def tensors(self) -> Statistics:
        """The tensors that define the value; a `Block` has a dict from its names to theirs."""

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
        """The value that one pass over the data of both would have given."""

    @abstractmethod
    def __add__(self, other: object) -> "AbstractPSD":
        """The exact sum of two matrices, where the structure is closed under it."""

    @abstractmethod
    def __mul__(self: Value, scale: float | int | Float[Tensor, ""]) -> Value:
        """The matrix times a number that is at least 0."""

    def __rmul__(self: Value, scale: float | int | Float[Tensor, ""]) -> Value:
        """The matrix times a number that is at least 0."""
        return self * scale

    def named(self: Value, name: str) -> Value:
        """The same value, decomposition included, under another name."""
        twin = copy.copy(self)
        twin.name = name
        return twin


def refined(
    value: AbstractPSD, vectors: Float[Tensor, "*batch P"], shift: Shift, inverse: TensorMap
) -> Float[Tensor, "*batch P"]:
    r"""Solutions :math:`x = x_0 + S(v - (H + \delta) x_0)`, where :math:`S = (H + \delta)^{-1}` carries no graph.

    One step of iterative refinement from :math:`x_0 = S v`. Its derivative :math:`S(dv - (dH + d\delta)\, x_0)` is
    that of the exact solution, so nothing needs to differentiate the decomposition behind S.

    Arguments:
        value: The matrix :math:`H`.
        vectors: The right-hand sides v.
        shift: The shift :math:`\delta`.
        inverse: The linear map S.
    """
    with torch.no_grad():
        start: Tensor = inverse(vectors)
    return start + inverse(vectors - value.matvec(start) - shift * start)


def check_matching(left: AbstractPSD, right: AbstractPSD, shapes: Callable[[AbstractPSD], object]) -> None:
    """Refusal of two values that no single pass could have given.

    Arguments:
        left: One value.
        right: The other.
        shapes: What must agree, beside the structure.
    """
    if type(left) is not type(right):
        raise StructureError(
            f"{type(left).__name__} accumulates with its own structure; {type(right).__name__} came. "
            "Compute both halves with the same curvature."
        )
    if shapes(left) != shapes(right):
        raise ShapeError(
            f"Two halves must have the same shapes; {shapes(left)} and {shapes(right)} came. "
            "Compute both halves for the same parameters."
        )
