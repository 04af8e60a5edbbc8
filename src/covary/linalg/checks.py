"""What a matrix refuses: wrong shapes, eigenvalues out of range."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import NotPositiveDefiniteError, ShapeError, StructureError


def describe(name: str, part: str = "") -> str:
    """The words by which messages call a matrix, such as "input_cov of block 'head'"."""
    whole = f"block '{name}'" if name else "the matrix"
    return f"{part} of {whole}" if part else whole


def check_factor(matrix: Float[Tensor, "..."], ndims: tuple[int, ...], label: str) -> None:
    """Refusal of a tensor that is no square matrix, or no stack of them, with at least one entry."""
    if matrix.ndim in ndims and matrix.shape[-1] == matrix.shape[-2] and matrix.numel() > 0:
        return
    expected = " or ".join("(Q, n, n)" if ndim == 3 else "(n, n)" for ndim in ndims)
    raise ShapeError(
        f"{label} must have shape {expected} with every axis at least 1; {tuple(matrix.shape)} came. "
        "Pass the square symmetric matrix, such as the Gram matrix of the rows."
    )


def check_entries(matrix: Float[Tensor, "*Q n n"], label: str) -> None:
    """Refusal of entries that are not finite or not symmetric."""
    low, high = matrix.aminmax()  # one look at every entry: nan and infinity come through
    if not bool(low.isfinite() & high.isfinite()):
        raise NotPositiveDefiniteError(
            f"Every entry of {label} must be finite; {int((~torch.isfinite(matrix)).sum())} are not. "
            "Look for inf or nan in the data and the weights, or compute in float64."
        )
    # Decompositions read one triangle only; sums over many data differ between the triangles by rounding, not by more.
    # Products below the smallest normal number, as of a path that is off, are each rounded by up to that number.
    gap, largest, kind = (matrix - matrix.mT).amax(), torch.maximum(high, -low), torch.finfo(matrix.dtype)
    if bool(gap > kind.eps**0.5 * largest + kind.tiny / kind.eps**0.5):
        raise StructureError(
            f"{label} must be symmetric; entries differ from their mirror image by up to {gap.item():.3e}. "
            "Pass (M + M.mT) / 2 if that is the matrix you mean."
        )


def check_vectors(vectors: Float[Tensor, "..."], size: int, label: str) -> None:
    """Refusal of vectors whose last axis does not have the `size` of the matrix."""
    if vectors.ndim == 0 or vectors.shape[-1] != size:
        raise ShapeError(
            f"Vectors for {label} must have shape (..., {size}); {tuple(vectors.shape)} came. "
            "Put the axis of the matrix last."
        )


def check_scale(scale: float | int | Float[Tensor, ""], label: str) -> None:
    """Refusal of a factor that would leave the positive semi-definite matrices."""
    if not bool(scale >= 0):
        raise StructureError(
            f"{label} can be multiplied by a number that is at least 0; {float(scale):.3g} came. "
            "A negative multiple of a positive semi-definite matrix is not one: subtract to_dense() by hand."
        )


def require_positive(values: Float[Tensor, "..."], label: str) -> Float[Tensor, "..."]:
    """The same eigenvalues, after a check that each is above zero.

    Arguments:
        values: Eigenvalues plus shift, any shape.
        label: How messages call the matrix.
    """
    if bool((values > 0).all()):
        return values
    raise NotPositiveDefiniteError(
        f"The smallest eigenvalue plus shift of {label} is {values.min().item():.3e}; it must be above 0. "
        "Raise the shift (the prior precision) of this block, or compute its matrices in float64."
    )
