"""What may be added to the diagonal of a matrix: a number, or one number per row."""

from collections.abc import Mapping
from typing import TypeGuard

from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError, StructureError

Shift = float | int | Float[Tensor, ""] | Float[Tensor, " _"]  # a number, or a vector of as many as H has rows
Shifts = Shift | Mapping[str, Shift]  # a shift, or one per named block


def is_vector(shift: Shifts) -> TypeGuard[Tensor]:
    """Whether the shift has one number per row."""
    return isinstance(shift, Tensor) and shift.ndim == 1


def single_shift(shift: Shifts, size: int, label: str) -> Shift:
    """The shift of one matrix with `size` rows, after a check that it is one.

    Arguments:
        shift: What was given.
        size: The number of rows P that a vector must have.
        label: How messages call the matrix.
    """
    if isinstance(shift, Mapping):
        raise StructureError(
            f"The shift of {label} must be a number or a tensor; a mapping with keys {sorted(shift)} came. "
            "Pass the entry of this block alone."
        )
    if isinstance(shift, Tensor) and shift.shape not in ((), (size,)):
        raise ShapeError(
            f"The shift of {label} must have shape () or ({size},); {tuple(shift.shape)} came. "
            "Pass one number, or one per row of the matrix."
        )
    return shift
